"""Hashes of the source of a pod, by which outdated pods are recognised.

The hash is that of the canonical form, so only a change of meaning changes it.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.list_order import in_canonical_order
from controller.ray.pods.hashes.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ALGORITHM: Final = "2"
"""Version of the canonical form; a pod with a hash of an unknown version is not outdated."""

FORMER: Final = "1"
"""The version before, in which the order of every list counted.

Its hashes can still be compared, so that an upgrade of the operator neither replaces a pod nor ends
a rolling update that is under way.
"""

UNKNOWN: Final = f"{ALGORITHM}-unknown"
"""Value in place of a hash: the pod's template differs from the present one."""

_SCHEDULING: Final = ("tolerations", "schedulingGates")
TEMPLATE_FIELDS: Final = ("template", "rayStartParams", "resources", "labels")
"""Fields of a group from which its pods are created."""
SCALING_FIELDS: Final = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy", "suspend")
"""Fields of a worker group that change the number of its pods, not the pods."""


class Hash:
    """The hash of a source; `str` gives that of the present algorithm.

    Args:
        source: returns the plain data of the source, given the algorithm of hashes within it.
    """

    def __init__(self, source: Callable[[str], Any]) -> None:
        self._source = source
        self._text = digest(source(ALGORITHM))

    def __eq__(self, other: object) -> bool:
        """Compare by the present algorithm."""
        return isinstance(other, Hash) and str(other) == self._text

    def __hash__(self) -> int:
        """Return a hash that follows from the text."""
        return hash(self._text)

    def __str__(self) -> str:
        """Return `<algorithm>-<32 characters>`."""
        return self._text

    @cached_property
    def former(self) -> str:
        """The hash of the same source by the algorithm before."""
        return digest(self._source(FORMER), FORMER)

    def by(self, algorithm: str) -> str:
        """Return the hash by either algorithm."""
        return str(self) if algorithm == ALGORITHM else self.former


def digest(value: Any, algorithm: str = ALGORITHM) -> str:
    """Return a hash of plain data: `<algorithm>-<32 characters>`."""
    form = canonical(value) if algorithm == FORMER else in_canonical_order(canonical(value))
    raw = hashlib.blake2b(msgspec.json.encode(form, order="sorted"), digest_size=20).digest()
    return f"{algorithm}-{base64.b32hexencode(raw).decode()}"


def is_comparable(stamped: str | None) -> bool:
    """Return whether a pod's hash can be compared with ours."""
    return str(stamped).startswith((f"{ALGORITHM}-", f"{FORMER}-"))


def is_outdated(stamped: str | None, wanted: Hash) -> bool:
    """Return whether a pod's hash proves that it was created from another template."""
    return is_comparable(stamped) and stamped != str(wanted) and not is_former(stamped, wanted)


def is_former(stamped: str | None, wanted: Hash) -> bool:
    """Return whether this is the hash of the same source by the algorithm before."""
    return str(stamped).startswith(f"{FORMER}-") and stamped == wanted.former


def template_digest(group: dict[str, Any]) -> Hash:
    """Return the hash of the fields of a group from which its pods are created, as written."""
    return Hash(lambda _: {key: group.get(key) for key in TEMPLATE_FIELDS})


def recreate_digest(spec: dict[str, Any]) -> Hash:
    """Return the hash of a specification, without the fields that may change without new pods."""
    return Hash(lambda _: _without_changeable(spec))


def _without_changeable(spec: dict[str, Any]) -> dict[str, Any]:
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
    return relevant


def without_scheduling(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group without the pod fields that KubeRay lets change in a running cluster."""
    template = mapping(group.get("template"))
    pod_spec = mapping(template.get("spec"))
    pod = {key: value for key, value in pod_spec.items() if key not in _SCHEDULING}
    return {**group, "template": {**template, "spec": pod}}
