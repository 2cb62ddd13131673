"""KubeRay's rules for fitting names into the limits of Kubernetes, and label syntax checks."""

from __future__ import annotations

import re
from typing import Final

_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

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


def is_dns_1035_label(value: str) -> bool:
    """Lower-case letters, digits and dashes, beginning with a letter, at most 63."""
    return len(value) <= 63 and _DNS_1035_LABEL.fullmatch(value) is not None


def is_dns_1123_label(value: str) -> bool:
    """Lower-case letters, digits and dashes, at most 63."""
    return len(value) <= 63 and _DNS_LABEL.fullmatch(value) is not None


def is_qualified_name(key: str) -> bool:
    """Whether `key` may be the key of a label: `name` or `dns.prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether `value` may be the value of a label; the empty string may."""
    return not value or (len(value) <= 63 and _NAME_PART.fullmatch(value) is not None)


def _is_dns_subdomain(value: str) -> bool:
    parts = value.split(".")
    return len(value) <= 253 and all(_DNS_LABEL.fullmatch(part) for part in parts)
