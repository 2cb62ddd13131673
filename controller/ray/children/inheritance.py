"""The metadata that children inherit from the object that they are created for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api.users_metadata import users_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply`; copied to a child it would describe the wrong object."""


def inherited_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations that are neither kubectl's record nor Manta's own."""
    return {
        key: value for key, value in users_metadata(annotations).items() if key != _LAST_APPLIED
    }
