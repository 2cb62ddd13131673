"""Fault tolerance of Ray's Global Control Service (GCS): storage that outlives the head.

`gcsFaultToleranceOptions` enables it, or the annotations of older versions.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from controller.ray.api import labels
from controller.ray.api.raycluster import ClusterSpec, GcsFaultToleranceOptions, RayCluster
from controller.ray.pods.environment import VARIABLE, PodDraft
from controller.ray.pods.features import add_mount, add_volume

STORAGE_VOLUME: Final = "gcs-storage"
STORAGE_PATH: Final = "/data/gcs"
WORKER_RECONNECT_SECONDS: Final = 600
"""Time for which a worker waits for a new head; Ray's default of a minute is too short."""


_PASSWORD: Final = "REDIS_PASSWORD"  # noqa: S105 - a name
_SUBSTITUTION: Final = re.compile(r'("?)\$\(.+\)\1')


class RedisStorage(Struct, frozen=True):
    """The GCS state in the user's Redis.

    Attributes:
        namespace: prefix of the keys of this cluster.
        options: address and credentials; None if the user's variables and parameters set them.
    """

    namespace: str
    options: GcsFaultToleranceOptions | None = None


class EmbeddedStorage(Struct, frozen=True):
    """The GCS state in a volume of the head."""

    claim: str
    sub_path: str = ""


StateStorage: TypeAlias = RedisStorage | EmbeddedStorage


def state_storage(cluster: RayCluster, spec: ClusterSpec) -> StateStorage | None:
    """Return the storage of the GCS state; None if the GCS is not fault tolerant."""
    annotations = cluster.metadata.annotations or {}
    options = spec.gcs_fault_tolerance_options
    if options is None:
        if annotations.get(labels.FT_ENABLED, "").lower() != "true":
            return None
        given = annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE)
        return RedisStorage(given or cluster.metadata.uid)
    if options.embedded:
        storage = options.storage
        return EmbeddedStorage(
            claim=(storage and storage.claim_name) or f"{cluster.metadata.name}-gcs-pvc",
            sub_path=(storage and storage.sub_path) or "",
        )
    return RedisStorage(options.external_storage_namespace or cluster.metadata.uid, options)


def add_state_storage(draft: PodDraft, storage: StateStorage | None) -> None:
    """Configure the storage in a head, or the time that a worker waits for a new head."""
    if draft.role == "head":
        draft.annotations[labels.FT_ENABLED] = str(storage is not None).lower()
        if isinstance(storage, RedisStorage):
            _add_redis(draft, storage)
        elif storage is not None:
            _add_volume(draft, storage)
    elif storage is not None:
        draft.env.default("RAY_gcs_rpc_server_reconnect_timeout_s", str(WORKER_RECONNECT_SECONDS))


def _add_redis(draft: PodDraft, storage: RedisStorage) -> None:
    draft.annotations[labels.EXTERNAL_STORAGE_NAMESPACE] = storage.namespace
    draft.env.default("RAY_external_storage_namespace", storage.namespace)
    options = storage.options
    if options is None:
        _add_given_password(draft)
        return
    if options.redis_address:
        draft.env.append("RAY_REDIS_ADDRESS", options.redis_address)
    _add_credential(draft, "username", options.redis_username)
    _add_credential(draft, "password", options.redis_password)


def _add_given_password(draft: PodDraft) -> None:
    """Add the user's parameter as a variable, because the cleanup Job has no parameters."""
    given = draft.parameters.get("redis-password")
    if given is None or _SUBSTITUTION.fullmatch(given):  # what a command prints is not known here
        return
    word = _shell_word(given)
    variable = VARIABLE.fullmatch(word or "")
    if variable is not None:
        name = variable[1] or variable[2]
        if name != _PASSWORD:  # which is in the environment already
            draft.env.default(_PASSWORD, f"$({name})")
        return
    if word is None:
        draft.parameters["redis-password"] = f"${_PASSWORD}"
    draft.env.default(_PASSWORD, (given if word is None else word).replace("$", "$$"))


def _shell_word(text: str) -> str | None:
    """Return the word that bash makes of a text; None if it makes several, or an error."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError:
        return None
    return "".join(words) if len(words) < 2 else None


def _add_credential(draft: PodDraft, what: str, source: Mapping[str, Any] | None) -> None:
    """Add a credential as a variable and a parameter that refers to the variable."""
    if source is None:
        return
    variable = f"REDIS_{what.upper()}"
    draft.parameters[f"redis-{what}"] = f"${variable}"
    draft.env.append_entry(
        {"name": variable} | {k: v for k, v in source.items() if k in {"value", "valueFrom"}}
    )


def _add_volume(draft: PodDraft, storage: EmbeddedStorage) -> None:
    draft.env.default("RAY_gcs_storage", "rocksdb")
    draft.env.default("RAY_gcs_storage_path", STORAGE_PATH)
    claim = {"claimName": storage.claim}
    volume: dict[str, Any] = {"name": STORAGE_VOLUME, "persistentVolumeClaim": claim}
    name = add_volume(draft.spec, volume, STORAGE_PATH)
    mount = {"name": name, "mountPath": STORAGE_PATH}
    if storage.sub_path:
        mount["subPath"] = storage.sub_path
    add_mount(draft.ray, mount)
