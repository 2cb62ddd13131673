"""Which cluster and which Serve config belong together, and how they are stored."""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, cast

import msgspec

from controller.apimachinery.custom_object import in_canonical_order, mapping
from controller.ray.api import labels
from controller.ray.api.raycluster import RayCluster
from controller.ray.pods.hashes import SCALING_FIELDS, canonical, without_scheduling

# The Serve config of a cluster, stored on the RayCluster itself.
#
# A cluster serves only the config that is stored on it, so no upgrade, rollback or restart of the
# operator can send it the config of another cluster (docs/rayservice.md).

MOST_BYTES: Final = 128 * 1024
"""Maximum length of the annotation; all annotations of an object may have 256 KiB."""

_MOST_DECODED: Final = 16 * 1024 * 1024
_DIGITS: Final = 16


class _Application(msgspec.Struct):
    name: str = "default"


class _Shape(msgspec.Struct):
    """The required shape of a config that another client may have written."""

    applications: list[_Application] = []


class ConfigTooLarge(ValueError):  # noqa: N818
    """The config does not fit into an annotation. The message is a predicate of the field."""


class StoredConfig(msgspec.Struct, frozen=True):
    """A config as it is stored.

    Attributes:
        body: the config as plain data, without `target_capacity`.
    """

    hash: str
    body: Mapping[str, Any]

    @property
    def applications(self) -> Mapping[str, Mapping[str, Any]]:
        """The configs of its applications, by name."""
        return {each.get("name", "default"): each for each in self.body.get("applications", ())}

    def request(self, capacity: int | None) -> bytes:
        """Return the body of the PUT for a target capacity in percent; None leaves it out."""
        scaled = {} if capacity is None else {"target_capacity": capacity}
        return msgspec.json.encode({**self.body, **scaled}, order="sorted")


def store(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that store a config.

    Raises:
        ConfigTooLarge: it does not fit even compressed.
    """
    text = msgspec.json.encode(body, order="sorted")
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    if len(packed) > MOST_BYTES:
        raise ConfigTooLarge(
            f"has {len(packed)} bytes after compression, more than the {MOST_BYTES} that fit into "
            "an annotation of the RayCluster; move data from user_config and runtime_env into the "
            "image or into storage that the applications read"
        )
    return {labels.SERVE_CONFIG: packed, labels.SERVE_CONFIG_HASH: digest(text)}


def load(annotations: Mapping[str, str] | None) -> StoredConfig | str | None:
    """Return the config in the annotations of a RayCluster; None if there is none.

    Where another client wrote the annotation, return a sentence about why it cannot be read.
    """
    packed = (annotations or {}).get(labels.SERVE_CONFIG)
    if packed is None:
        return None
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(base64.b64decode(packed, validate=True), _MOST_DECODED)
        body = msgspec.json.decode(text, type=dict[str, Any])
        msgspec.convert(body, _Shape)
    except (zlib.error, ValueError, RecursionError) as error:
        return f"The annotation {labels.SERVE_CONFIG} of the RayCluster cannot be read: {error}"
    return StoredConfig(digest(text), body)


def read_config(cluster: RayCluster) -> StoredConfig | str | None:
    """Return the config that is stored on a cluster, as `load` does."""
    return load(cluster.metadata.annotations)


def digest(text: bytes) -> str:
    """Return the digest of a config as `store` encodes it."""
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


# Decides which changes of `spec.rayClusterConfig` need a new cluster.
#
# A cluster stores digests of its source: of the cluster without its worker groups, and of each
# worker group with its name, so that groups are compared by name. Fields that may change in a
# running cluster count for neither. It also stores the generation of the RayService: at the same
# generation nothing was edited, and a specification that reads differently is one from which a
# definition drops other fields.

_CHANGEABLE: Final = frozenset({
    "managedBy", "suspend", "upgradeStrategy", "idleSuspend", "idleTerminationOptions",
    "disruptionBudgets",
})  # fmt: skip
"""Fields of the cluster that do not affect its pods."""

_DIGITS_OF_IDENTITY: Final = 16
_VERSION: Final = "3."
"""Begins the text of an identity in the present canonical form; others cannot be compared."""


class SpecChange(Enum):
    """The difference between a wanted specification and that of a cluster."""

    NONE = "none that counts"
    ADDED_GROUPS = "worker groups were added"
    NEW_CLUSTER = "it asks for another cluster"


class SpecIdentity(msgspec.Struct, frozen=True):
    """The specification from which a cluster is created."""

    cluster: str
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> SpecIdentity:
        """Return the identity of a cluster's specification, plain data."""
        rest = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
        found: Any = rest.pop("workerGroupSpecs", None)
        groups = cast("list[Any]", found) if isinstance(found, list) else []
        rest["headGroupSpec"] = without_scheduling(mapping(rest.get("headGroupSpec")))
        digests = (_digest(_group(each), "workerGroupSpecs") for each in groups)
        return cls(_digest(rest), tuple(digests))

    @classmethod
    def parse(cls, text: str) -> SpecIdentity | None:
        """Parse the text of `str`; return None for anything else."""
        cluster, *groups = text.removeprefix(_VERSION).split(".")
        is_known = all(
            len(each) == _DIGITS_OF_IDENTITY and each.isalnum() for each in (cluster, *groups)
        )
        return cls(cluster, tuple(groups)) if is_known and text.startswith(_VERSION) else None

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return _VERSION + ".".join((self.cluster, *self.groups))

    def change_to(self, wanted: SpecIdentity) -> SpecChange:
        """Return the difference between this identity and `wanted`."""
        present, goal = set(self.groups), set(wanted.groups)
        if wanted.cluster != self.cluster or not present <= goal:
            return SpecChange.NEW_CLUSTER
        return SpecChange.NONE if present == goal else SpecChange.ADDED_GROUPS


def _group(group: Any) -> dict[str, Any]:
    kept = {key: item for key, item in mapping(group).items() if key not in SCALING_FIELDS}
    return without_scheduling(kept)


def _digest(value: Any, around: str = "") -> str:
    form = in_canonical_order(canonical(value, around), around)
    text = msgspec.json.encode(form, order="sorted")
    return hashlib.sha256(text).hexdigest()[:_DIGITS_OF_IDENTITY]


class Origin(msgspec.Struct, frozen=True):
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
        is_number = (
            generation.isascii() and generation.isdigit() and len(generation) < _DIGITS_OF_IDENTITY
        )
        return cls(SpecIdentity.parse(identity), int(generation) if is_number else None)

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return f"{self.identity}@{self.generation}"


# Stable ids of commands to Serve, so that repeating a command has no second effect.


def put_command_ids(config: StoredConfig, capacity: int | None) -> tuple[str, str]:
    """Return two ids of the command that deploys a config with a target capacity in percent.

    A command is sent once. If Serve loses its applications, the other id is used, in turns.
    """
    first = f"serve/{config.hash}/{'full' if capacity is None else capacity}"
    return first, f"{first}/again"
