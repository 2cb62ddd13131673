"""Hashes of templates: by them outdated pods and changed fields are known."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

import msgspec

from controller.apimachinery.custom_object import copied, in_canonical_order, mapping
from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.apimachinery.validation import plain_path
from controller.ray.api.labels import MANAGED_BY_US

# The canonical form of specifications: equivalent specifications have the same one.
#
# A default that is written out, or filled in by the API server, makes no difference; a change of
# the pod does. Tables list the values that have no meaning, by field.

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
_PATHS: Final = frozenset({"devicePath", "mountPath", "subPath", "workingDir"})


def canonical(value: Any, around: str = "") -> Any:
    """Return data without meaningless values."""
    copy, parts = copied(value, around, is_leaf=_is_amount)
    for part, name in reversed(parts):
        if isinstance(part, dict):
            _drop_meaningless(part, name)
        elif name == "hostAliases":
            part[:] = _host_aliases(part)
    return copy


def _is_amount(around: str, name: str) -> bool:
    return around in _AMOUNTS or name in _AMOUNT


def _drop_meaningless(fields: dict[str, Any], around: str) -> None:
    holds_amounts = around in _AMOUNTS
    for name, item in tuple(fields.items()):
        if holds_amounts or name in _AMOUNT:
            fields[name] = _amount(item)
        elif not isinstance(item, dict | list):
            fields[name] = _in_plain_notation(around, name, item)
        if _is_meaningless(around, name, fields[name]):
            del fields[name]


def _in_plain_notation(around: str, name: str, value: Any) -> Any:
    """Return a path without needless slashes, and an amount of a resource of Ray in nano-units."""
    if around == "resources":
        return _amount(value)
    is_path = name in _PATHS or (around, name) == ("hostPath", "path")
    return plain_path(value) if is_path and isinstance(value, str) and value else value


def _host_aliases(aliases: list[Any]) -> list[Any]:
    """Return them sorted, unless two have a name in common, of which the first one counts."""
    names = [name for alias in aliases for name in mapping(alias).get("hostnames") or ()]
    is_clear = len({*map(str, names)}) == len(names)
    return sorted(aliases, key=msgspec.json.encode) if is_clear else aliases


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


# Hashes of the source of a pod, by which outdated pods are recognised.
#
# The hash is that of the canonical form, so only a change of meaning changes it.

ALGORITHM: Final = "3"
"""Version of the canonical form; a pod with a hash of another version is not outdated."""

UNKNOWN: Final = f"{ALGORITHM}-unknown"
"""Value in place of a hash: the pod's template differs from the present one."""

_SCHEDULING: Final = ("tolerations", "schedulingGates")
TEMPLATE_FIELDS: Final = ("template", "rayStartParams", "resources", "labels")
"""Fields of a group from which its pods are created."""
_OF_NO_POD: Final = frozenset(
    {"upgradeStrategy", "idleSuspend", "idleTerminationOptions", "disruptionBudgets"}
)
"""Fields of a cluster that say how and when its pods go, not what they are."""
SCALING_FIELDS: Final = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy", "suspend")
"""Fields of a worker group that change the number of its pods, not the pods."""


def digest(value: Any) -> str:
    """Return a hash of plain data: `<algorithm>-<32 characters>`."""
    form = msgspec.json.encode(in_canonical_order(canonical(value)), order="sorted")
    raw = hashlib.blake2b(form, digest_size=20).digest()
    return f"{ALGORITHM}-{base64.b32hexencode(raw).decode()}"


def is_comparable(stamped: str | None) -> bool:
    """Return whether a pod's hash can be compared with ours."""
    return str(stamped).startswith(f"{ALGORITHM}-")


def is_outdated(stamped: str | None, wanted: str) -> bool:
    """Return whether a pod's hash proves that it was created from another template."""
    return stamped != wanted and is_comparable(stamped)


def template_digest(group: Mapping[str, Any]) -> str:
    """Return the hash of the fields of a group from which its pods are created, as written."""
    return digest({key: group.get(key) for key in TEMPLATE_FIELDS})


def recreate_digest(spec: dict[str, Any]) -> str:
    """Return the hash of a specification, without the fields that may change without new pods."""
    return digest(_without_changeable(spec))


def _without_changeable(spec: dict[str, Any]) -> dict[str, Any]:
    relevant = {key: value for key, value in spec.items() if key not in _OF_NO_POD}
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
    return relevant


def without_scheduling(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group without the pod fields that KubeRay lets change in a running cluster."""
    template = mapping(group.get("template"))
    pod_spec = mapping(template.get("spec"))
    pod = {key: value for key, value in pod_spec.items() if key not in _SCHEDULING}
    return {**group, "template": {**template, "spec": pod}}


# Digests of fields by their names, which tell later which of the fields have changed.

_DIGITS: Final = 8


def field_digests(fields: Mapping[str, Any]) -> str:
    """Return the fields as `name=digest`, sorted, with commas between; empty if there are none."""
    return ",".join(f"{name}={_short(value)}" for name, value in sorted(fields.items()))


def changed_fields(recorded: str | None, present: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the fields that were added, removed or changed.

    Args:
        recorded: what `field_digests` gave earlier; None if that is not known.
        present: the fields now.
    """
    if recorded is None:
        return frozenset()
    pairs = (each.partition("=") for each in recorded.split(",") if each)
    known = {name: digest_ for name, _, digest_ in pairs}
    same = {name for name, value in present.items() if known.get(name) == _short(value)}
    return frozenset((known.keys() | present.keys()) - same)


def _short(value: Any) -> str:
    return digest(value).partition("-")[2][:_DIGITS]


# The templates of all pods of a cluster, which an upgrade changes and an undo restores.

Spec = dict[str, Any]

_HEAD: Final = "headGroupSpec"
_WORKERS: Final = "workerGroupSpecs"


def templates_of(spec: Mapping[str, Any]) -> Spec:
    """Return the part of a cluster's specification from which its pods are created."""
    head = _template_fields(mapping(spec.get(_HEAD)))
    workers = [
        {"groupName": group["groupName"], **_template_fields(group)} for group in _groups(spec)
    ]
    version = {"rayVersion": spec["rayVersion"]} if spec.get("rayVersion") else {}
    return {**version, _HEAD: head, _WORKERS: workers}


def template_set_digest(ray_version: str, hashes: Mapping[str, str]) -> str:
    """Hash all templates, given the hashes of the groups; the head's name is empty."""
    return digest([ray_version, dict(hashes)])


def with_templates(spec: Mapping[str, Any], templates: Mapping[str, Any]) -> Spec:
    """Return the specification with the templates of the groups that both have."""
    earlier = {group["groupName"]: group for group in _groups(templates)}
    head = _replaced(mapping(spec.get(_HEAD)), mapping(templates.get(_HEAD)))
    workers = [
        _replaced(group, earlier[group["groupName"]]) if group["groupName"] in earlier else group
        for group in _groups(spec)
    ]
    kept = {key: value for key, value in spec.items() if key != "rayVersion"}
    version = {"rayVersion": templates["rayVersion"]} if templates.get("rayVersion") else {}
    return {**kept, **version, _HEAD: head, _WORKERS: workers}


def groups_only_in(spec: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the worker groups that the second specification lacks."""
    known = {group["groupName"] for group in _groups(other)}
    return tuple(group["groupName"] for group in _groups(spec) if group["groupName"] not in known)


def _groups(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (mapping(group) for group in spec.get(_WORKERS) or ())


def _template_fields(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: group[key] for key in TEMPLATE_FIELDS if group.get(key) is not None}


def _replaced(group: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in group.items() if key not in TEMPLATE_FIELDS}
    return {**kept, **_template_fields(earlier)}
