"""The nouns in the reasons of events: `CreatedHeadPod`, `FailedToCreatePVC`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.resources import Resource

EventNouns: TypeAlias = "Mapping[Resource[Any], str]"

KUBERAY_NOUNS: Final[EventNouns] = MappingProxyType({CLAIMS: "PVC"})
"""Resources that KubeRay calls otherwise than by their kind; a kind adds its own."""


def event_noun(resource: Resource[Any], nouns: EventNouns = KUBERAY_NOUNS) -> str:
    """The noun for an object of this resource: its kind, unless `nouns` has another one."""
    return nouns.get(resource, resource.kind)
