"""Validation of the options of a cluster: fault tolerance, protection, upgrades and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.metadata import is_dns_label
from controller.apimachinery.validation import ContainerShape, Problem, plain_path
from controller.ray.api import labels
from controller.ray.api.feature_gates import EMBEDDED_STORAGE, HISTORY_SERVER, MTLS, NETWORK_POLICY
from controller.ray.api.names import AUTOSCALER, COLLECTOR, TLS_DIRECTORY, TLS_VARIABLES, TLS_VOLUME
from controller.ray.api.ray_options import KUBERNETES_AUTH_SINCE, TOKEN_AUTH_SINCE, is_at_least
from controller.ray.api.raycluster import (
    GcsFaultToleranceOptions,
    NetworkPolicyOptions,
    NetworkRules,
)
from controller.ray.api.upgrade_strategy import ANNOTATION, FIELD, ROLLING_UPDATE, budget_problems
from controller.ray.api.validation import ValidationContext

# Checks that GCS fault tolerance is configured once and without contradictions.

_OPTIONS: Final = "spec.gcsFaultToleranceOptions"
_PARAMETERS: Final = "spec.headGroupSpec.rayStartParams"
_HEAD_POD: Final = "spec.headGroupSpec.template.spec"
_HEAD_ENV: Final = f"{_HEAD_POD}.containers[0].env"
_STORAGE_VARIABLES: Final = ("RAY_gcs_storage", "RAY_gcs_storage_path")


def fault_tolerance_problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield all problems of fault tolerance, and those of the options that a remedy names."""
    options = context.spec.gcs_fault_tolerance_options
    username = [*_redis_username(context)]
    if options is None:
        address = [*_address_without_options(context)]
        yield from address
        if address or username:
            yield from _said_twice(context)
    else:
        yield from _said_twice(context)
        yield from _backend(context, options)
    yield from username


def _has_legacy_option(context: ValidationContext) -> bool:
    return context.annotations.get(labels.FT_ENABLED, "").lower() == "true"


def _address_without_options(context: ValidationContext) -> Iterator[Problem]:
    if not _has_legacy_option(context) and context.head.ray.variable("RAY_REDIS_ADDRESS"):
        yield Problem(
            f"{_HEAD_ENV}[RAY_REDIS_ADDRESS]",
            f"has no effect without fault tolerance; use {_OPTIONS}.redisAddress",
        )


def _said_twice(context: ValidationContext) -> Iterator[Problem]:
    """Yield settings that are made by options and by what is older than these."""
    if context.annotations.get(labels.FT_ENABLED):
        yield Problem(
            f"metadata.annotations[{labels.FT_ENABLED}]",
            f"says the same as {_OPTIONS}; remove the annotation",
        )
    if (context.spec.head_group_spec.ray_start_params or {}).get("redis-password"):
        yield Problem(f"{_PARAMETERS}[redis-password]", _instead(context, "redisPassword"))
    if context.head.ray.variable("REDIS_PASSWORD"):
        yield Problem(f"{_HEAD_ENV}[REDIS_PASSWORD]", _instead(context, "redisPassword"))
    is_told = context.spec.gcs_fault_tolerance_options is None and not _has_legacy_option(context)
    if context.head.ray.variable("RAY_REDIS_ADDRESS") and not is_told:
        yield Problem(f"{_HEAD_ENV}[RAY_REDIS_ADDRESS]", _instead(context, "redisAddress"))
    if context.annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE):
        yield Problem(
            f"metadata.annotations[{labels.EXTERNAL_STORAGE_NAMESPACE}]",
            _instead(context, "externalStorageNamespace"),
        )


def _instead(context: ValidationContext, option: str) -> str:
    options = context.spec.gcs_fault_tolerance_options
    if options is not None and options.embedded:
        return f"is for Redis, and {_OPTIONS}.backend is rocksdb; remove it"
    return f"use {_OPTIONS}.{option} instead"


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
        yield Problem(f"{_PARAMETERS}[redis-username]", _instead(context, "redisUsername"))
    if context.head.ray.variable("REDIS_USERNAME"):
        yield Problem(f"{_HEAD_ENV}[REDIS_USERNAME]", _instead(context, "redisUsername"))


# Refuses protection that a RayCluster asks for and does not get.
#
# Such a cluster would run and look ready but be unprotected. Other fields without effect are
# accepted and named in a condition, because safety does not depend on them.

_AUTH_MODES: Final = frozenset({"", "token", "disabled"})


def unbuilt_protection(context: ValidationContext) -> Iterator[Problem]:
    """Yield a problem for each field that asks for protection the cluster would not have."""
    options = context.spec.tls_options
    if options is not None and options.enabled is not False and not context.gates.enabled(MTLS):
        yield Problem(
            "spec.tlsOptions",
            f"needs the feature gate {MTLS}, without which Ray would send everything in clear text",
        )
    auth = context.spec.auth_options
    if auth is not None and auth.mode not in _AUTH_MODES:
        yield Problem(
            "spec.authOptions.mode",
            f"{auth.mode!r} is not supported, and Ray would need no authentication; it must be "
            "token or disabled",
        )


# Checks what would collide with the certificates of `tlsOptions` (behaviour 14).


def _mtls(context: ValidationContext) -> Iterator[Problem]:
    if not context.spec.has_mtls:
        return
    shapes = [(_HEAD_POD, context.head)]
    groups = enumerate(context.workers)
    shapes += [(f"spec.workerGroupSpecs[{i}].template.spec", shape) for i, shape in groups]
    for path, shape in shapes:
        env = [each.name for each in shape.ray.env]
        mounts = [(each.name, each.mount_path) for each in shape.ray.volume_mounts]
        yield from _certificates_of_others(f"{path}.containers[0]", env, mounts)
        if any(volume.name == TLS_VOLUME for volume in shape.spec.volumes):
            yield Problem(f"{path}.volumes[{TLS_VOLUME}]", _BY_OPERATOR)
    options = context.spec.autoscaler_options
    if options is not None:
        env = [str(each.get("name")) for each in options.env]
        mounts = [(str(m.get("name")), str(m.get("mountPath"))) for m in options.volume_mounts]
        yield from _certificates_of_others("spec.autoscalerOptions", env, mounts)


def _certificates_of_others(
    path: str, env: list[str], mounts: list[tuple[str, str]]
) -> Iterator[Problem]:
    for name in (each for each in TLS_VARIABLES if each in env):
        yield Problem(f"{path}.env[{name}]", _BY_OPERATOR)
    for name, mounted_at in mounts:
        if name == TLS_VOLUME or plain_path(mounted_at) == TLS_DIRECTORY:
            yield Problem(f"{path}.volumeMounts[{name}]", _BY_OPERATOR)


_BY_OPERATOR: Final = "is the operator's with spec.tlsOptions; remove it, or remove tlsOptions"


# Checks `networkPolicy` (behaviour 13).

_POLICY: Final = "spec.networkPolicy"
_POLICY_MODES: Final = ("DenyAll", "DenyAllIngress", "DenyAllEgress")


def _network_policy(context: ValidationContext) -> Iterator[Problem]:
    policy = context.spec.network_policy
    if policy is None:
        return
    if not context.gates.enabled(NETWORK_POLICY):
        yield Problem(_POLICY, f"needs the feature gate {NETWORK_POLICY}")
    if policy.mode not in _POLICY_MODES:
        yield Problem(f"{_POLICY}.mode", f"{policy.mode!r} is none of {', '.join(_POLICY_MODES)}")
    parts: list[tuple[str, NetworkRules]] = [("head", policy.head), ("worker", policy.worker)]
    parts += [(f"workerGroups[{i}]", rules) for i, rules in enumerate(policy.worker_groups)]
    for part, rules in parts:
        if rules.ingress_rules and not policy.denies_ingress:
            yield _without_effect(f"{part}.ingressRules", policy.mode)
        if rules.egress_rules and not policy.denies_egress:
            yield _without_effect(f"{part}.egressRules", policy.mode)
    yield from _policies_of_groups(policy, [g.group_name for g in context.spec.worker_group_specs])


def _policies_of_groups(policy: NetworkPolicyOptions, names: list[str]) -> Iterator[Problem]:
    for position, name in enumerate(names):
        if not is_dns_label(name):
            yield Problem(
                f"spec.workerGroupSpecs[{position}].groupName",
                f"{name!r} must be at most 63 lower-case letters, digits and inner dashes with "
                f"{_POLICY}, because a NetworkPolicy is named after it",
            )
    for position, rules in enumerate(policy.worker_groups):
        path = f"{_POLICY}.workerGroups[{position}].groupName"
        if rules.group_name not in names:
            yield Problem(path, f"there is no worker group {rules.group_name!r}")
        elif rules.group_name in {each.group_name for each in policy.worker_groups[:position]}:
            yield Problem(path, f"names {rules.group_name!r} a second time")


def _without_effect(field: str, mode: str) -> Problem:
    """Return the problem of rules that admit what the mode does not deny."""
    direction = "incoming" if "ingress" in field else "outgoing"
    return Problem(
        f"{_POLICY}.{field}",
        f"has no effect, because mode {mode} denies no {direction} connections; remove it, or "
        "change the mode",
    )


# Checks of a RayCluster's optional features: protection, auth, history server.

_HISTORY_SERVER: Final = "spec.historyServerOptions"
_HISTORY: Final = f"{_HISTORY_SERVER}.collectorOptions"
_COLLECTOR_OWN_ENV: Final = frozenset({
    "POD_IP", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_ROLE",
    "OWNER_KIND", "OWNER_NAME", "EVENTS_PORT",
})  # fmt: skip
_BACKEND_NEEDS: Final = {
    "gcs": ("GCS_BUCKET",),
    "s3": ("S3_REGION",),
    "aliyunoss": ("OSS_BUCKET", "OSS_ENDPOINT", "OSS_REGION"),
}


def option_problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield all problems of the optional features."""
    yield from unbuilt_protection(context)
    yield from _mtls(context)
    yield from _network_policy(context)
    yield from fault_tolerance_problems(context)
    yield from _history_server(context)
    yield from _auth(context)
    yield from _taken_names(context)


def _taken_names(context: ValidationContext) -> Iterator[Problem]:
    """Yield containers of the user that have the name of one that the operator adds."""
    for path, container in _all_containers(context):
        by_head = context.spec.autoscaling and path.startswith("spec.headGroupSpec")
        if (container.name == AUTOSCALER and by_head) or (
            container.name == COLLECTOR and context.spec.history_server_options is not None
        ):
            yield Problem(
                path, f"{container.name!r} is the name of the operator's own container; rename it"
            )


def _history_server(context: ValidationContext) -> Iterator[Problem]:
    options = context.spec.history_server_options
    if options is None:
        return
    if not context.gates.enabled(HISTORY_SERVER):
        yield Problem(_HISTORY_SERVER, f"needs the feature gate {HISTORY_SERVER}")
    collector = options.collector_options
    if collector is None:
        yield Problem(_HISTORY, "must be set, with an image, and with STORAGE_BACKEND in env")
        return
    if not collector.image:
        yield Problem(f"{_HISTORY}.image", "must be set")
    env = {str(entry.get("name")): entry for entry in collector.env}
    for name in env:
        if name in _COLLECTOR_OWN_ENV:
            yield Problem(f"{_HISTORY}.env[{name}]", "is set by the operator; remove it")
    yield from _storage_backend(env)


def _storage_backend(env: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    where = f"{_HISTORY}.env[STORAGE_BACKEND]"
    given = str(env.get("STORAGE_BACKEND", {}).get("value") or "")
    if not given:
        yield Problem(where, "must be set, to a literal value")
        return
    backend = given.lower()
    alternatives = _azure_needs(env) if backend == "azureblob" else ()
    if alternatives and not any(_has_value(env, name) for name in alternatives):
        yield Problem(where, f"{given} needs {' or '.join(alternatives)} to be set too")
    for name in _BACKEND_NEEDS.get(backend, ()):
        if not _has_value(env, name):
            yield Problem(where, f"{given} needs {name} to be set too")


def _azure_needs(env: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the variables of which one must be set; either suffices without a known mode."""
    by_string, by_url = "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_URL"
    mode = str(env.get("AZURE_STORAGE_AUTH_MODE", {}).get("value") or "").strip().lower()
    match mode:
        case "connection_string":
            return (by_string,)
        case "workload_identity" | "default":
            return (by_url,)
        case _:
            return by_string, by_url


def _has_value(env: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    entry = env.get(name, {})
    return bool(entry.get("value") or entry.get("valueFrom"))


def _auth(context: ValidationContext) -> Iterator[Problem]:
    auth, version = context.spec.auth_options, context.spec.ray_version
    if auth is None:
        return
    by_kubernetes = bool(auth.enable_k8s_token_auth)
    if by_kubernetes and not auth.by_token:
        yield Problem(
            "spec.authOptions.enableK8sTokenAuth",
            "needs spec.authOptions.mode to be token",
            against=("spec.authOptions.mode",),
        )
    if (by_kubernetes or auth.by_token) and not is_at_least(version, TOKEN_AUTH_SINCE):
        yield Problem(
            "spec.authOptions.mode", "token needs spec.rayVersion to be set to 2.52.0 or later"
        )
    if by_kubernetes and not is_at_least(version, KUBERNETES_AUTH_SINCE):
        yield Problem(
            "spec.authOptions.enableK8sTokenAuth",
            "needs spec.rayVersion to be set to 2.55.0 or later",
        )
    if by_kubernetes and auth.secret_name:
        yield Problem(
            "spec.authOptions.secretName",
            "is not used with spec.authOptions.enableK8sTokenAuth; remove it",
            against=("spec.authOptions.enableK8sTokenAuth",),
        )


def _all_containers(context: ValidationContext) -> Iterator[tuple[str, ContainerShape]]:
    shapes = [("spec.headGroupSpec", context.head)]
    shapes += [(f"spec.workerGroupSpecs[{i}]", shape) for i, shape in enumerate(context.workers)]
    for path, shape in shapes:
        lists = {"containers": shape.spec.containers, "initContainers": shape.spec.init_containers}
        for field, containers in lists.items():
            for position, container in enumerate(containers):
                yield f"{path}.template.spec.{field}[{position}].name", container


# Checks a RayCluster's upgrade strategy, whether a field or an annotation sets it.

_REPLACED_BY_THEIR_OWNERS: Final = frozenset({"RayClusterFleet", "RayJob", "RayService"})
"""Kinds that replace their clusters as a whole."""


def strategy_problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield all problems of the strategy in force."""
    strategy = context.spec.upgrade_strategy
    given = dig(context.cluster.spec, "upgradeStrategy", "type")
    path = FIELD if given or not strategy.type else ANNOTATION
    origin = (context.cluster.metadata.labels or {}).get(labels.ORIGIN_KIND)
    if strategy.type is not None and origin in _REPLACED_BY_THEIR_OWNERS:
        yield Problem(path, f"cannot be set on a cluster of a {origin}")
    if strategy.type not in {None, "Recreate", "None", ROLLING_UPDATE}:
        yield Problem(
            f"{path}.type", f"{strategy.type!r} is none of RollingUpdate, Recreate and None"
        )
    if strategy.rolling is not None:
        yield from budget_problems(strategy.rolling, f"{path}.rollingUpdate")
    elif strategy.rolling_update is not None and origin in _REPLACED_BY_THEIR_OWNERS:
        yield Problem(f"{path}.rollingUpdate", f"cannot be set on a cluster of a {origin}")
    elif strategy.rolling_update is not None:
        yield Problem(
            f"{path}.rollingUpdate",
            f"is for type RollingUpdate; set {path}.type to it, or remove {path}.rollingUpdate",
        )
