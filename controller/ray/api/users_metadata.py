"""Metadata that users give to the objects that are created for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Mapping


def users_metadata(entries: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations that are not Manta's own.

    Those record what Manta did with an object: what a user copies from one, and writes into a
    template, would tell that of each new one.
    """
    return {
        key: value
        for key, value in (entries or {}).items()
        if not key.startswith(labels.OWN_PREFIX)
    }
