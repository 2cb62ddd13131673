"""Decides which changes of `spec.rayClusterConfig` need a new cluster.

A cluster stores digests of its source: of the cluster without its worker groups, and of each worker
group. Fields that may change in a running cluster count for neither. It also stores the generation
of the RayService: at the same generation nothing was edited, and a specification that reads
differently is one from which a definition drops other fields.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.ray.pods.hashes.canonical import canonical
from controller.ray.pods.hashes.template_hash import SCALING_FIELDS, without_scheduling

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHANGEABLE: Final = frozenset({"managedBy", "suspend", "upgradeStrategy"})
"""Fields of the cluster that do not affect its pods."""

_DIGITS: Final = 16


class SpecChange(Enum):
    """The difference between a wanted specification and that of a cluster."""

    NONE = "none that counts"
    ADDED_GROUPS = "worker groups were added at the end"
    NEW_CLUSTER = "it asks for another cluster"


@dataclass(frozen=True, slots=True)
class SpecIdentity:
    """The specification from which a cluster is created.

    Attributes:
        cluster: digest of everything but the worker groups.
        groups: digest of each worker group, in their order.
    """

    cluster: str
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> SpecIdentity:
        """Return the identity of a cluster's specification, plain data."""
        rest = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
        found: Any = rest.pop("workerGroupSpecs", None)
        groups = cast("list[Any]", found) if isinstance(found, list) else []
        rest["headGroupSpec"] = without_scheduling(mapping(rest.get("headGroupSpec")))
        return cls(
            _digest(rest, ""), tuple(_digest(_group(each), "workerGroupSpecs") for each in groups)
        )

    @classmethod
    def parse(cls, text: str) -> SpecIdentity | None:
        """Parse the text of `str`; return None for anything else."""
        cluster, *groups = text.split(".")
        digests = (cluster, *groups)
        if all(len(each) == _DIGITS and each.isalnum() for each in digests):
            return cls(cluster, tuple(groups))
        return None

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return ".".join((self.cluster, *self.groups))

    def change_to(self, wanted: SpecIdentity) -> SpecChange:
        """Return the difference between this identity and `wanted`."""
        if wanted == self:
            return SpecChange.NONE
        count = len(self.groups)
        if wanted.cluster == self.cluster and wanted.groups[:count] == self.groups:
            return SpecChange.ADDED_GROUPS
        return SpecChange.NEW_CLUSTER


def _group(group: Any) -> dict[str, Any]:
    kept = {key: item for key, item in mapping(group).items() if key not in SCALING_FIELDS}
    return without_scheduling(kept)


def _digest(value: Any, around: str) -> str:
    text = msgspec.json.encode(canonical(value, around), order="sorted")
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
