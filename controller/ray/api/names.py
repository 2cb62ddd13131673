"""KubeRay's rules that shorten names to the limits of Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def read_cluster_domain(environment: Mapping[str, str]) -> str:
    """Return the DNS domain of the Kubernetes cluster, without the dots that may enclose it."""
    return environment.get("CLUSTER_DOMAIN", "").strip(".") or "cluster.local"


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
