"""The canonical form of specifications: equivalent specifications have the same one.

A default that is written out, or filled in by the API server, makes no difference; a change of the
pod does. Tables list the values that have no meaning, by field.
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
"""Default values, by the enclosing field and the field's name."""

_FALSE_BY_DEFAULT: Final = frozenset({
    "enableInTreeAutoscaling", "enableIngress", "enableK8sTokenAuth", "enabled", "hostIPC",
    "hostNetwork", "hostPID", "optional", "privileged", "readOnly", "readOnlyRootFilesystem",
    "setHostnameAsFQDN", "shareProcessNamespace", "stdin", "stdinOnce", "suspend", "tty",
})  # fmt: skip
_MEANINGFUL_WHEN_EMPTY: Final = frozenset({
    "authOptions", "gcsFaultToleranceOptions", "labelSelector", "namespaceSelector",
    "networkPolicy", "podSelector", "redisPassword", "redisUsername", "storageClassName",
})  # fmt: skip
"""Fields whose empty value has a meaning: an empty selector selects everything."""

_MAPS: Final = frozenset({
    "annotations", "labels", "matchLabels", "nodeSelector", "options", "rayStartParams",
    "volumeAttributes",
})  # fmt: skip
"""Fields with arbitrary keys, whose empty values have a meaning."""

_AMOUNTS: Final = frozenset({"limits", "requests"})
_AMOUNT: Final = frozenset({"divisor", "size", "sizeLimit"})


def canonical(value: Any, around: str = "") -> Any:
    """Return data without meaningless values; `around` is the name of the enclosing field."""
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
        if not _is_meaningless(around, name, normal):
            result[name] = normal
    return result


def _is_meaningless(around: str, name: str, value: Any) -> bool:
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
    """Return a quantity in nano-units; any other value unchanged."""
    try:
        return f"{parse_quantity(value).nanos}n"
    except (InvalidQuantity, TypeError):
        return value
