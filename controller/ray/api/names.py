"""KubeRay's rules that shorten names to the limits of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from controller.apimachinery.custom_object import CustomObject, dig, mapping
from controller.apimachinery.validation import Problem
from controller.kube.resources import CLAIMS, Resource
from controller.ray.api import labels
from controller.ray.api.labels import MANAGED_BY_US

_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

MAX_CLUSTER_NAME: Final = 53
"""Maximum length of a RayCluster's name: 63 minus the longest suffix of its children."""

MAX_JOB_NAME: Final = 47
"""Maximum length of a RayJob's name, to which its cluster adds six characters."""

MAX_SERVICE_NAME: Final = 47
"""Maximum length of a RayService's name, to which its clusters add six characters."""

MAX_CRON_JOB_NAME: Final = 36
"""Maximum length of a RayCronJob's name, to which RayJobs add a dash and the tick's minute."""

MAX_FLEET_NAME: Final = 39
"""Maximum length of a RayClusterFleet's name, to which its clusters add index and template."""


def head_prefix(cluster: str) -> str:
    """Return the name of a cluster's head without its suffix."""
    return f"{cluster}-head"


def worker_prefix(cluster: str, group: str) -> str:
    """Return the name of a group's worker without its suffix."""
    return f"{cluster}-{group}-worker".lower()


def checked_name(name: str) -> str:
    """Return the last 50 characters, a leading digit or punctuation as `r`: KubeRay's CheckName."""
    tail = name[-50:]
    if tail and (tail[0].isdigit() or tail[0] in _PUNCTUATION):
        return "r" + tail[1:]
    return tail


def checked_label(value: str) -> str:
    """Return the last 63 characters, leading punctuation as `r`: KubeRay's CheckLabel."""
    tail = value[-63:]
    if tail and tail[0] in _PUNCTUATION:
        return "r" + tail[1:]
    return tail


def checked_route_name(name: str, namespace: str) -> str:
    """Shorten name and namespace so that both form one host label: KubeRay's CheckRouteName."""
    room = max(1, 51 - len(namespace))
    return checked_name(name[:room])


# Default ports of Ray.

GCS_PORT: Final = 6379
DASHBOARD_PORT: Final = 8265
METRICS_PORT: Final = 8080
AGENT_PORT: Final = 52365

AUTOSCALER: Final = "autoscaler"
"""Name of the container of Ray's autoscaler in a head."""

SUBMITTER: Final = "ray-job-submitter"
"""Name of the container that submits a RayJob, by which its log is read."""

COLLECTOR: Final = "ray-history-collector"
"""Name of the container that sends logs and events to the storage of the history server."""


TLS_VOLUME: Final = "ray-tls"
"""The volume of a pod's certificate, which no user may have."""

TLS_DIRECTORY: Final = "/etc/ray/tls"
TLS_VARIABLES: Final = MappingProxyType(
    {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": f"{TLS_DIRECTORY}/tls.crt",
        "RAY_TLS_SERVER_KEY": f"{TLS_DIRECTORY}/tls.key",
        "RAY_TLS_CA_CERT": f"{TLS_DIRECTORY}/ca.crt",
    }
)
"""The variables by which Ray finds a certificate, which no user may set with `tlsOptions`."""


# The nouns in the reasons of events, as in `CreatedHeadPod` and `FailedToCreatePVC`.

EventNouns: TypeAlias = "Mapping[Resource[Any], str]"

KUBERAY_NOUNS: Final[EventNouns] = MappingProxyType({CLAIMS: "PVC"})
"""Resources for which KubeRay uses another noun than the kind; a Ray kind adds its own."""


def event_noun(resource: Resource[Any], nouns: EventNouns = KUBERAY_NOUNS) -> str:
    """Return the noun for an object of this resource: from `nouns`, else its kind."""
    return nouns.get(resource, resource.kind)


# Types of a RayCluster's conditions. The first five are KubeRay's; clients know them by name.

HEAD_POD_READY: Final = "HeadPodReady"
PROVISIONED: Final = "RayClusterProvisioned"
REPLICA_FAILURE: Final = "ReplicaFailure"
SUSPENDING: Final = "RayClusterSuspending"
SUSPENDED: Final = "RayClusterSuspended"
DELETION_HELD: Final = "DeletionHeld"
PODS_UP_TO_DATE: Final = "PodsUpToDate"
OPTIONS_IN_EFFECT: Final = "OptionsInEffect"
UPGRADING: Final = "Upgrading"
GROUPS_UPGRADING: Final = "GroupsUpgrading"
CHILDREN_AS_SPECIFIED: Final = "ChildrenAsSpecified"

HEAD_POD_NOT_FOUND: Final = "HeadPodNotFound"
"""Reason of `HeadPodReady` while there is no head."""

RECREATING: Final = "Recreating"
"""Reason of `PodsUpToDate` while an edited specification replaces all pods.

The edit explains the reason, however long the replacement takes.
"""

UPGRADE_STRATEGY_NONE: Final = "UpgradeStrategyNone"
"""Reason of `PodsUpToDate` while nothing replaces outdated pods."""


# Metadata that users give to the objects that are created for them.


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


# The common base of the cached `ray.io` objects.


class RayObject(CustomObject, frozen=True, gc=True, weakref=True):
    """A cached `ray.io` object; its specification is plain data until it is parsed."""

    spec: Any = msgspec.field(default_factory=dict[str, Any])


def is_suspension_asked(obj: RayObject, problem: Problem | None, *path: str) -> bool:
    """Return whether `suspend` at the path in the specification is to be heeded.

    It frees what is used, so that it does not wait for the correction of another field.
    """
    field = ".".join(("spec", *path, "suspend"))
    asked = dig(obj.spec, *path, "suspend") is True
    return asked and (problem is None or not problem.concerns(field))


def is_managed_elsewhere(obj: RayObject) -> bool:
    """Return whether `spec.managedBy` names another controller."""
    manager = mapping(obj.spec).get("managedBy")
    return bool(manager) and manager != MANAGED_BY_US
