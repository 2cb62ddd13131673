"""Digests of fields by their names, which tell later which of the fields have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.ray.pods.hashes.template_hash import ALGORITHM, FORMER, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS: Final = 8


def field_digests(fields: Mapping[str, Any]) -> str:
    """Return the fields as `name=digest`, sorted, with commas between; empty if there are none."""
    return ",".join(f"{name}={_short(value)}" for name, value in sorted(fields.items()))


def changed_fields(recorded: str | None, present: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the fields that were added, removed or changed.

    Digests have no version: one by the algorithm before counts as well.

    Args:
        recorded: what `field_digests` gave earlier; None if that is not known.
        present: the fields now.
    """
    if recorded is None:
        return frozenset()
    pairs = (each.partition("=") for each in recorded.split(",") if each)
    known = {name: digest_ for name, _, digest_ in pairs}
    same = {name for name, value in present.items() if _is_of(known.get(name), value)}
    return frozenset((known.keys() | present.keys()) - same)


def _is_of(recorded: str | None, value: Any) -> bool:
    return recorded == _short(value) or recorded == _short(value, FORMER)


def _short(value: Any, algorithm: str = ALGORITHM) -> str:
    return digest(value, algorithm).partition("-")[2][:_DIGITS]
