"""Decides which changes of `spec.rayClusterConfig` need a new cluster.

A cluster stores digests of its source: of the cluster without its worker groups, and of each worker
group with its name, so that groups are compared by name. Fields that may change in a running
cluster count for neither. It also stores the generation of the RayService: at the same generation
nothing was edited, and a specification that reads differently is one from which a definition drops
other fields.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.list_order import in_canonical_order
from controller.ray.pods.hashes.canonical import canonical
from controller.ray.pods.hashes.template_hash import SCALING_FIELDS, without_scheduling

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHANGEABLE: Final = frozenset({"managedBy", "suspend", "upgradeStrategy"})
"""Fields of the cluster that do not affect its pods."""

_DIGITS: Final = 16
_VERSION: Final = "2."
"""Begins the digests of the present canonical form; those of the form before begin with nothing."""


class SpecChange(Enum):
    """The difference between a wanted specification and that of a cluster."""

    NONE = "none that counts"
    ADDED_GROUPS = "worker groups were added"
    NEW_CLUSTER = "it asks for another cluster"


@dataclass(frozen=True, slots=True)
class SpecIdentity:
    """The specification from which a cluster is created.

    Attributes:
        cluster: digest of everything but the worker groups.
        groups: digest of each worker group.
        former: the digests of the same specification as earlier versions of the operator stored
            them, which the order of each list changed; None for those read from a cluster.
        is_former: whether these are such digests.
    """

    cluster: str
    groups: tuple[str, ...] = ()
    former: SpecIdentity | None = field(default=None, compare=False, repr=False)
    is_former: bool = False

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> SpecIdentity:
        """Return the identity of a cluster's specification, plain data."""
        return replace(cls._by(spec), former=cls._by(spec, as_written=True))

    @classmethod
    def _by(cls, spec: Mapping[str, Any], *, as_written: bool = False) -> SpecIdentity:
        rest = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
        found: Any = rest.pop("workerGroupSpecs", None)
        groups = cast("list[Any]", found) if isinstance(found, list) else []
        rest["headGroupSpec"] = without_scheduling(mapping(rest.get("headGroupSpec")))
        digests = (
            _digest(_group(each), "workerGroupSpecs", as_written=as_written) for each in groups
        )
        cluster = _digest(rest, "", as_written=as_written)
        return cls(cluster, tuple(digests), is_former=as_written)

    @classmethod
    def parse(cls, text: str) -> SpecIdentity | None:
        """Parse the text of `str`; return None for anything else."""
        is_present = text.startswith(_VERSION)
        cluster, *groups = text.removeprefix(_VERSION).split(".")
        digests = (cluster, *groups)
        if all(len(each) == _DIGITS and each.isalnum() for each in digests):
            return cls(cluster, tuple(groups), is_former=not is_present)
        return None

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return ("" if self.is_former else _VERSION) + ".".join((self.cluster, *self.groups))

    def change_to(self, wanted: SpecIdentity) -> SpecChange:
        """Return the difference between this identity and `wanted`, which `of` has returned."""
        if self.is_former and wanted.former is not None:
            wanted = wanted.former
        present, goal = set(self.groups), set(wanted.groups)
        if wanted.cluster != self.cluster or not present <= goal:
            return SpecChange.NEW_CLUSTER
        return SpecChange.NONE if present == goal else SpecChange.ADDED_GROUPS


def _group(group: Any) -> dict[str, Any]:
    kept = {key: item for key, item in mapping(group).items() if key not in SCALING_FIELDS}
    return without_scheduling(kept)


def _digest(value: Any, around: str, *, as_written: bool) -> str:
    form = canonical(value, around)
    form = form if as_written else in_canonical_order(form, around)
    text = msgspec.json.encode(form, order="sorted")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class Origin:
    """The recorded origin of a cluster, the value of its annotation.

    Attributes:
        identity: identity of the specification; None if it is not recorded.
        generation: last generation of the RayService that asked for it; None if it is not recorded.
    """

    identity: SpecIdentity | None
    generation: int | None = None

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Parse the text of `str`."""
        identity, _, generation = text.partition("@")
        is_number = generation.isascii() and generation.isdigit() and len(generation) < _DIGITS
        return cls(SpecIdentity.parse(identity), int(generation) if is_number else None)

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return f"{self.identity}@{self.generation}"
