"""Specifications reduced to what they say, so that two that say the same are equal.

What somebody writes out and another leaves out, or the API server's schema fills in, must make no
difference; what changes a pod must make one. So there are lists of what means nothing, by field.
"""

from __future__ import annotations

from typing import Any, Final, cast

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.ray.api.labels import MANAGED_BY_US

_DEFAULTS: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("", "managedBy"): (MANAGED_BY_US,),
    ("authOptions", "mode"): ("token",),
    ("gcsFaultToleranceOptions", "backend"): ("redis",),
    ("networkPolicy", "mode"): ("DenyAll",),
    ("workerGroupSpecs", "numOfHosts"): (0, 1),
    ("workerGroupSpecs", "priority"): (0,),
    ("spec", "dnsPolicy"): ("ClusterFirst",),
    ("spec", "restartPolicy"): ("Always",),
    ("spec", "schedulerName"): ("default-scheduler",),
    ("spec", "terminationGracePeriodSeconds"): (30,),
    ("containers", "terminationMessagePath"): ("/dev/termination-log",),
    ("containers", "terminationMessagePolicy"): ("File",),
    ("ports", "protocol"): ("TCP",),
    ("azureDisk", "fsType"): ("ext4",),
    ("iscsi", "iscsiInterface"): ("default",),
    ("rbd", "keyring"): ("/etc/ceph/keyring",),
    ("rbd", "pool"): ("rbd",),
    ("rbd", "user"): ("admin",),
    ("scaleIO", "fsType"): ("xfs",),
    ("scaleIO", "storageMode"): ("ThinProvisioned",),
}
"""Values that a field has anyway, by the field around it and its own name."""

_FALSE_BY_DEFAULT: Final = frozenset({
    "enableInTreeAutoscaling", "enableIngress", "enableK8sTokenAuth", "enabled", "hostIPC",
    "hostNetwork", "hostPID", "optional", "privileged", "readOnly", "readOnlyRootFilesystem",
    "setHostnameAsFQDN", "shareProcessNamespace", "stdin", "stdinOnce", "suspend", "tty",
})  # fmt: skip
_MEANINGFUL_WHEN_EMPTY: Final = frozenset({
    "authOptions", "gcsFaultToleranceOptions", "labelSelector", "namespaceSelector",
    "networkPolicy", "podSelector", "redisPassword", "redisUsername", "storageClassName",
})  # fmt: skip
"""Fields that differ from absent ones even when empty: an empty selector selects everything."""

_MAPS: Final = frozenset({
    "annotations", "labels", "matchLabels", "nodeSelector", "options", "rayStartParams",
    "volumeAttributes",
})  # fmt: skip
"""Fields whose keys the user makes up, so that an empty value says as much as any other."""

_AMOUNTS: Final = frozenset({"limits", "requests"})
_AMOUNT: Final = frozenset({"divisor", "size", "sizeLimit"})


def canonical(value: Any, around: str = "") -> Any:
    """The same data without what says nothing; `around` is the name of the field it is in."""
    if isinstance(value, dict):
        return _mapping(cast("dict[str, Any]", value), around)
    if isinstance(value, list):
        return [canonical(item, around) for item in cast("list[Any]", value)]
    return value


def _mapping(mapping: dict[str, Any], around: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, item in mapping.items():
        is_amount = around in _AMOUNTS or name in _AMOUNT
        normal = _amount(item) if is_amount else canonical(item, name)
        if not _says_nothing(around, name, normal):
            result[name] = normal
    return result


def _says_nothing(around: str, name: str, value: Any) -> bool:
    if value is None:
        return True
    if around in _MAPS:
        return False
    if value in ("", {}, []):
        return name not in _MEANINGFUL_WHEN_EMPTY
    if value is False:
        return name in _FALSE_BY_DEFAULT
    return value in _DEFAULTS.get((around, name), ())


def _amount(value: Any) -> Any:
    """A quantity as one number, however it is written; anything else as it is."""
    try:
        return f"{parse_quantity(value).nanos}n"
    except (InvalidQuantity, TypeError):
        return value
