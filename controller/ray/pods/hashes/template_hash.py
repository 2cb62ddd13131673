"""Hashes of the source of a pod, by which outdated pods are recognised.

The hash is that of the canonical form, so only a change of meaning changes it.
"""

from __future__ import annotations

import base64
import hashlib
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.ray.pods.hashes.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHM: Final = "1"
"""Version of the canonical form; a pod with a hash of another version is not outdated."""

UNKNOWN: Final = f"{ALGORITHM}-unknown"
"""Value in place of a hash: the pod's template differs from the present one."""

_SCHEDULING: Final = ("tolerations", "schedulingGates")
TEMPLATE_FIELDS: Final = ("template", "rayStartParams", "resources", "labels")
"""Fields of a group from which its pods are created."""
SCALING_FIELDS: Final = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy", "suspend")
"""Fields of a worker group that change the number of its pods, not the pods."""


def digest(value: Any) -> str:
    """Return a hash of plain data: `<algorithm>-<32 characters>`."""
    encoded = msgspec.json.encode(canonical(value), order="sorted")
    raw = hashlib.blake2b(encoded, digest_size=20).digest()
    return f"{ALGORITHM}-{base64.b32hexencode(raw).decode()}"


def is_comparable(stamped: str | None) -> bool:
    """Return whether a pod's hash can be compared with ours."""
    return bool(stamped) and str(stamped).startswith(f"{ALGORITHM}-")


def is_outdated(stamped: str | None, wanted: str) -> bool:
    """Return whether a pod's hash proves that it was created from another template."""
    return is_comparable(stamped) and stamped != wanted


def template_digest(group: dict[str, Any]) -> str:
    """Return the hash of the fields of a group from which its pods are created, as written."""
    return digest({key: group.get(key) for key in TEMPLATE_FIELDS})


def recreate_digest(spec: dict[str, Any]) -> str:
    """Return the hash of a specification, without the fields that may change without new pods."""
    relevant = {key: value for key, value in spec.items() if key != "upgradeStrategy"}
    relevant["headGroupSpec"] = without_scheduling(spec.get("headGroupSpec") or {})
    groups: list[dict[str, Any]] = spec.get("workerGroupSpecs") or []
    relevant["workerGroupSpecs"] = [
        {
            key: value
            for key, value in without_scheduling(group).items()
            if key not in SCALING_FIELDS
        }
        for group in sorted(groups, key=itemgetter("groupName"))
    ]
    return digest(relevant)


def without_scheduling(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group without the pod fields that KubeRay lets change in a running cluster."""
    template = mapping(group.get("template"))
    pod_spec = mapping(template.get("spec"))
    pod = {key: value for key, value in pod_spec.items() if key not in _SCHEDULING}
    return {**group, "template": {**template, "spec": pod}}
