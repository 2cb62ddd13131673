"""The nouns in the reasons of events, as in `CreatedHeadPod` and `FailedToCreatePVC`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.resources import Resource

EventNouns: TypeAlias = "Mapping[Resource[Any], str]"

KUBERAY_NOUNS: Final[EventNouns] = MappingProxyType({CLAIMS: "PVC"})
"""Resources for which KubeRay uses another noun than the kind; a Ray kind adds its own."""


def event_noun(resource: Resource[Any], nouns: EventNouns = KUBERAY_NOUNS) -> str:
    """Return the noun for an object of this resource: from `nouns`, else its kind."""
    return nouns.get(resource, resource.kind)
