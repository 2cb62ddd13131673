"""Hashes of what a pod was made from, so that an outdated pod can be recognised.

The input is normalised before it is hashed: whether a default was written out by the user or
filled in by the API server's schema must not make a difference.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final, cast

import msgspec

ALGORITHM: Final = "1"
"""Version of the normalisation. Pods stamped by another one are not called outdated."""

_EMPTY: Final[tuple[Any, ...]] = (None, "", {}, [])
_DEFAULTS: Final = {
    ("ports", "protocol"): "TCP",
    ("fileKeyRef", "optional"): False,
    ("azureDisk", "fsType"): "ext4",
    ("azureDisk", "readOnly"): False,
    ("iscsi", "iscsiInterface"): "default",
    ("rbd", "keyring"): "/etc/ceph/keyring",
    ("rbd", "pool"): "rbd",
    ("rbd", "user"): "admin",
    ("scaleIO", "fsType"): "xfs",
    ("scaleIO", "storageMode"): "ThinProvisioned",
}
_SCHEDULING: Final = ("tolerations", "schedulingGates")
_SCALING: Final = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_SPEC_DEFAULTS: Final = {"suspend": False, "enableInTreeAutoscaling": False}
_GROUP_DEFAULTS: Final = {"numOfHosts": 1, "priority": 0, "suspend": False}


def digest(value: Any) -> str:
    """`<algorithm>-<32 characters>` of any plain data."""
    encoded = msgspec.json.encode(normalise(value), order="sorted")
    raw = hashlib.blake2b(encoded, digest_size=20).digest()
    return f"{ALGORITHM}-{base64.b32hexencode(raw).decode()}"


def is_outdated(stamped: str | None, wanted: str) -> bool:
    """Whether the hash on a pod says, beyond doubt, that it was made from something else."""
    if not stamped or not stamped.startswith(f"{ALGORITHM}-"):
        return False
    return stamped != wanted


def template_digest(group: dict[str, Any]) -> str:
    """Hash of what the pods of a group, as it stands in the manifest, are made from."""
    relevant = ("template", "rayStartParams", "resources", "labels")
    return digest({key: group.get(key) for key in relevant})


def recreate_digest(spec: dict[str, Any]) -> str:
    """Hash of the whole specification, less what may change without new pods."""
    relevant = {
        key: value
        for key, value in spec.items()
        if key != "upgradeStrategy" and value != _SPEC_DEFAULTS.get(key)
    }
    relevant["headGroupSpec"] = _without_scheduling(spec.get("headGroupSpec") or {})
    relevant["workerGroupSpecs"] = [
        {
            key: value
            for key, value in _without_scheduling(group).items()
            if key not in _SCALING and value != _GROUP_DEFAULTS.get(key)
        }
        for group in spec.get("workerGroupSpecs") or ()
    ]
    return digest(relevant)


def normalise(value: Any, parent: str = "") -> Any:
    """The same data without nulls, empty values and known defaults."""
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for key, item in cast("dict[str, Any]", value).items():
            normal = normalise(item, key)
            if normal in _EMPTY or _DEFAULTS.get((parent, key), _EMPTY) == normal:
                continue
            result[key] = normal
        return result
    if isinstance(value, list):
        return [normalise(item, parent) for item in cast("list[Any]", value)]
    return value


def _without_scheduling(group: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = group.get("template") or {}
    pod_spec: dict[str, Any] = template.get("spec") or {}
    pod = {key: value for key, value in pod_spec.items() if key not in _SCHEDULING}
    return {**group, "template": {**template, "spec": pod}}
