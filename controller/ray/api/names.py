"""KubeRay's rules for fitting names into the limits of Kubernetes."""

from __future__ import annotations

from typing import Final

_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

MAX_CLUSTER_NAME: Final = 53
"""Longest name of a RayCluster: what is left of 63 for the suffixes of its children."""

MAX_JOB_NAME: Final = 47
"""Longest name of a RayJob: its cluster is named after it, with six characters more."""

MAX_CRON_JOB_NAME: Final = 36
"""Longest name of a RayCronJob: its RayJobs add a dash and the minute of their tick."""


def checked_name(name: str) -> str:
    """KubeRay's CheckName: the last 50 characters, never beginning with a digit or punctuation."""
    tail = name[-50:]
    if tail and (tail[0].isdigit() or tail[0] in _PUNCTUATION):
        return "r" + tail[1:]
    return tail


def checked_label(value: str) -> str:
    """KubeRay's CheckLabel: the last 63 characters, never beginning with punctuation."""
    tail = value[-63:]
    if tail and tail[0] in _PUNCTUATION:
        return "r" + tail[1:]
    return tail


def checked_route_name(name: str, namespace: str) -> str:
    """KubeRay's CheckRouteName: name and namespace together are one label of a host name."""
    room = max(1, 51 - len(namespace))
    return checked_name(name[:room])
