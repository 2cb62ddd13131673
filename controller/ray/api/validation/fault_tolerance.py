"""Checks that GCS fault tolerance is configured once and without contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.apimachinery.template import plain_path
from controller.ray.api import labels
from controller.ray.api.feature_gates import EMBEDDED_STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.raycluster import GcsFaultToleranceOptions
    from controller.ray.api.validation.context import ValidationContext

_OPTIONS: Final = "spec.gcsFaultToleranceOptions"
_PARAMETERS: Final = "spec.headGroupSpec.rayStartParams"
_HEAD_POD: Final = "spec.headGroupSpec.template.spec"
_HEAD_ENV: Final = f"{_HEAD_POD}.containers[0].env"
_STORAGE_VARIABLES: Final = ("RAY_gcs_storage", "RAY_gcs_storage_path")


def fault_tolerance_problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield all problems of fault tolerance."""
    options = context.spec.gcs_fault_tolerance_options
    if options is None:
        yield from _address_without_options(context)
    else:
        yield from _said_twice(context)
        yield from _backend(context, options)
    yield from _redis_username(context)


def _address_without_options(context: ValidationContext) -> Iterator[Problem]:
    legacy = context.annotations.get(labels.FT_ENABLED, "").lower() == "true"
    if not legacy and context.head.ray.variable("RAY_REDIS_ADDRESS"):
        yield Problem(
            f"{_HEAD_ENV}[RAY_REDIS_ADDRESS]",
            f"has no effect without fault tolerance; use {_OPTIONS}.redisAddress",
        )


def _said_twice(context: ValidationContext) -> Iterator[Problem]:
    """Yield settings that both options and older annotations contain (behaviour 19)."""
    if context.annotations.get(labels.FT_ENABLED):
        yield Problem(
            f"metadata.annotations[{labels.FT_ENABLED}]",
            f"says the same as {_OPTIONS}; remove the annotation",
        )
    if (context.spec.head_group_spec.ray_start_params or {}).get("redis-password"):
        yield Problem(f"{_PARAMETERS}[redis-password]", f"use {_OPTIONS}.redisPassword")
    for name, instead in (
        ("REDIS_PASSWORD", "redisPassword"),
        ("RAY_REDIS_ADDRESS", "redisAddress"),
    ):
        if context.head.ray.variable(name):
            yield Problem(f"{_HEAD_ENV}[{name}]", f"use {_OPTIONS}.{instead} instead")
    if context.annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE):
        yield Problem(
            f"metadata.annotations[{labels.EXTERNAL_STORAGE_NAMESPACE}]",
            f"use {_OPTIONS}.externalStorageNamespace instead",
        )


def _backend(context: ValidationContext, options: GcsFaultToleranceOptions) -> Iterator[Problem]:
    if options.embedded:
        if not context.gates.enabled(EMBEDDED_STORAGE):
            yield Problem(
                f"{_OPTIONS}.backend", f"rocksdb needs the feature gate {EMBEDDED_STORAGE}"
            )
        yield from _embedded_storage(options)
        yield from _operators_own(context)
    elif options.storage is not None:
        yield Problem(f"{_OPTIONS}.storage", "is for backend rocksdb; Redis keeps its own storage")


def _embedded_storage(options: GcsFaultToleranceOptions) -> Iterator[Problem]:
    redis_only = {
        "redisAddress": bool(options.redis_address),
        "redisUsername": options.redis_username is not None,
        "redisPassword": options.redis_password is not None,
        "externalStorageNamespace": bool(options.external_storage_namespace),
    }
    for field, is_set in redis_only.items():
        if is_set:
            yield Problem(f"{_OPTIONS}.{field}", "is for backend redis; remove it")
    storage = options.storage
    if storage is None or not storage.claim_name:
        return
    if storage.size is not None or storage.storage_class_name is not None or storage.access_modes:
        yield Problem(
            f"{_OPTIONS}.storage.claimName",
            "names an existing claim; size, storageClassName and accessModes are for a new one",
        )


def _operators_own(context: ValidationContext) -> Iterator[Problem]:
    """Yield variables and volumes of the head that the operator sets for embedded storage."""
    for name in _STORAGE_VARIABLES:
        if context.head.ray.variable(name):
            yield Problem(f"{_HEAD_ENV}[{name}]", "is set by the operator for backend rocksdb")
    for mount in context.head.ray.volume_mounts:
        if mount.name == "gcs-storage" or plain_path(mount.mount_path) == "/data/gcs":
            yield Problem(
                f"{_HEAD_POD}.containers[0].volumeMounts[{mount.name}]",
                "is mounted by the operator for backend rocksdb",
            )
    if any(volume.name == "gcs-storage" for volume in context.head.spec.volumes):
        yield Problem(
            f"{_HEAD_POD}.volumes[gcs-storage]", "is added by the operator for backend rocksdb"
        )


def _redis_username(context: ValidationContext) -> Iterator[Problem]:
    if (context.spec.head_group_spec.ray_start_params or {}).get("redis-username"):
        yield Problem(f"{_PARAMETERS}[redis-username]", f"use {_OPTIONS}.redisUsername")
    if context.head.ray.variable("REDIS_USERNAME"):
        yield Problem(f"{_HEAD_ENV}[REDIS_USERNAME]", f"use {_OPTIONS}.redisUsername instead")
