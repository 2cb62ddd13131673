"""Checks of a RayCluster's optional features: protection, auth, history server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.problem import Problem
from controller.ray.api.fields.version import KUBERNETES_AUTH_SINCE, TOKEN_AUTH_SINCE, is_at_least
from controller.ray.api.validation.fault_tolerance import fault_tolerance_problems
from controller.ray.api.validation.protection import unbuilt_protection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.apimachinery.template import ContainerShape
    from controller.ray.api.validation.context import ValidationContext

_HISTORY: Final = "spec.historyServerOptions.collectorOptions"
_COLLECTOR: Final = "ray-history-collector"
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
    yield from fault_tolerance_problems(context)
    yield from _history_server(context)
    yield from _auth(context)


def _history_server(context: ValidationContext) -> Iterator[Problem]:
    options = context.spec.history_server_options
    if options is None:
        return
    collector = options.collector_options
    if collector is None:
        yield Problem(_HISTORY, "must be set")
        return
    if not collector.image:
        yield Problem(f"{_HISTORY}.image", "must be set")
    env = {str(entry.get("name")): entry for entry in collector.env}
    for name in env:
        if name in _COLLECTOR_OWN_ENV:
            yield Problem(f"{_HISTORY}.env[{name}]", "is set by the operator; remove it")
    yield from _storage_backend(env)
    for path, container in _all_containers(context):
        if container.name == _COLLECTOR:
            yield Problem(path, f"{_COLLECTOR!r} is the name of the operator's own container")


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
    if not auth.by_token:
        if auth.enable_k8s_token_auth:
            yield Problem("spec.authOptions.enableK8sTokenAuth", "needs mode token")
        return
    if not is_at_least(version, TOKEN_AUTH_SINCE):
        yield Problem(
            "spec.authOptions.mode", "token needs spec.rayVersion to be set to 2.52.0 or later"
        )
    if auth.enable_k8s_token_auth:
        if not is_at_least(version, KUBERNETES_AUTH_SINCE):
            yield Problem(
                "spec.authOptions.enableK8sTokenAuth",
                "needs spec.rayVersion to be set to 2.55.0 or later",
            )
        if auth.secret_name:
            yield Problem(
                "spec.authOptions.secretName", "is not used with enableK8sTokenAuth; remove it"
            )


def _all_containers(context: ValidationContext) -> Iterator[tuple[str, ContainerShape]]:
    shapes = [("spec.headGroupSpec", context.head)]
    shapes += [(f"spec.workerGroupSpecs[{i}]", shape) for i, shape in enumerate(context.workers)]
    for path, shape in shapes:
        for position, container in enumerate(shape.spec.containers):
            yield f"{path}.template.spec.containers[{position}].name", container
