"""Digests of fields by their names, which tell later which of the fields have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.ray.pods.hashes.template_hash import FORMER, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS: Final = 8


def field_digests(fields: Mapping[str, Any]) -> str:
    """Return the fields as `name=digest`, sorted, with commas between; empty if there are none.

    They have no version, so that they stay those of the algorithm before.
    """
    return ",".join(f"{name}={_short(value)}" for name, value in sorted(fields.items()))


def changed_fields(recorded: str | None, present: str) -> frozenset[str]:
    """Return the names of the fields that were added, removed or changed.

    Args:
        recorded: what `field_digests` gave earlier; None if that is not known.
        present: what it gives now.
    """
    if recorded is None or recorded == present:
        return frozenset()
    differing = set(recorded.split(",")) ^ set(present.split(","))
    return frozenset(each.partition("=")[0] for each in differing if each)


def _short(value: Any) -> str:
    return digest(value, FORMER).partition("-")[2][:_DIGITS]
