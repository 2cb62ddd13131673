"""The Serve config of a cluster, stored on the RayCluster itself.

A cluster serves only the config that is stored on it, so no upgrade, rollback or restart of the
operator can send it the config of another cluster (docs/rayservice.md).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import RayCluster

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


class UnreadableConfig(ValueError):  # noqa: N818
    """An annotation does not hold a config. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A config as it is stored.

    Attributes:
        hash: digest of the config.
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


def load(annotations: Mapping[str, str] | None) -> StoredConfig | None:
    """Return the config in the annotations of a RayCluster; None if there is none.

    Raises:
        UnreadableConfig: another client wrote the annotation.
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
        raise UnreadableConfig(
            f"The annotation {labels.SERVE_CONFIG} of the RayCluster cannot be read: {error}"
        ) from error
    return StoredConfig(digest(text), body)


def read_config(cluster: RayCluster) -> StoredConfig | UnreadableConfig | None:
    """Return the config stored on a cluster, why it cannot be read, or None if there is none."""
    try:
        return load(cluster.metadata.annotations)
    except UnreadableConfig as error:
        return error


def digest(text: bytes) -> str:
    """Return the digest of a config as `store` encodes it."""
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
