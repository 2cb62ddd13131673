"""Checks of list keys that server-side apply makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.apply.fields import item_element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.jsondata import Json


def invalid_list_keys(
    value: Any, structure: Structure, path: str = "", *, strict: bool
) -> Iterator[str]:
    """Yield errors for list items with duplicate keys or, if strict, without keys."""
    if isinstance(value, dict) and not structure.is_atomic:
        for name, item in cast("Json", value).items():
            yield from invalid_list_keys(
                item, structure.field(name), f"{path}.{name}", strict=strict
            )
    elif isinstance(value, list) and structure.list_keys is not None:
        yield from _ill_keyed_items(cast("list[Any]", value), structure, path, strict=strict)


def _ill_keyed_items(
    items: list[Any], structure: Structure, path: str, *, strict: bool
) -> Iterator[str]:
    keys = structure.list_keys or ()
    seen: set[str] = set()
    for index, item in enumerate(items):
        if strict and keys and isinstance(item, dict) and not any(key in item for key in keys):
            listed = ",".join(f'"{key}"' for key in keys)
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits "
                f"all key fields [{listed}] (and doesn't have default values for any key fields)"
            )
            continue
        element = item_element(item, keys)
        if element in seen:
            yield f"{path}: duplicate entries for key [{element[2:]}]"
        seen.add(element)
        yield from invalid_list_keys(item, structure.item(), f"{path}[{index}]", strict=strict)
