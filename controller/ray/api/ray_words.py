"""The words of Ray 2.60 that users write as keys, and those in an object that it does not know.

The API server takes any key here, and Ray fails on it later, or ignores it. Another Ray may know
more words than these: they are named with the nearest known one, and block nothing.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.object_schema import UnknownField
from controller.apimachinery.user_yaml import InvalidYaml
from controller.ray.api.ray_options import read_runtime_env, read_serve_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from controller.ray.api.names import RayObject


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RAY: Final = "Ray 2.60"
"""The version whose words these are."""

START: Final = _words(
    """
    address autoscaling-config block cgroup-path cluster-name dashboard-agent-grpc-port
    dashboard-agent-listen-port dashboard-grpc-port dashboard-host dashboard-port
    disable-usage-stats enable-object-reconstruction enable-resource-isolation gcs-server-port head
    include-dashboard include-log-monitor labels labels-file log-color log-style logging-format
    logging-level max-worker-port memory metrics-export-port min-worker-port no-monitor
    no-redirect-output node-ip-address node-manager-port node-name num-cpus num-gpus
    object-manager-port object-spilling-directory object-store-memory plasma-directory port
    proxy-server-url ray-client-server-port ray-debugger-external redis-password redis-shard-ports
    redis-username resources runtime-env-agent-port storage system-config system-reserved-cpu
    system-reserved-memory temp-dir tracing-startup-hook verbose worker-port-list
    """
)
"""Options of `ray start`, those of older versions included."""

RUNTIME_ENV: Final = _words(
    """
    _inject_current_ray _nsight _ray_commit _ray_release _rocprof_sys conda config container
    env_vars excludes image_uri java_jars nsight pip py_executable py_modules rocprof_sys uv
    worker_process_setup_hook working_dir
    """
)
SERVE: Final = _words(
    """
    applications controller_options grpc_options http_options logging_config proxy_location
    target_capacity tracing_config
    """
)
APPLICATION: Final = _words(
    """
    args autoscaling_policy deployments external_scaler_enabled host import_path logging_config name
    port route_prefix runtime_env
    """
)
DEPLOYMENT: Final = _words(
    """
    autoscaling_config backpressure_config deployment_actors gang_scheduling_config
    graceful_shutdown_timeout_s graceful_shutdown_wait_loop_s health_check_period_s
    health_check_timeout_s logging_config max_concurrent_queries max_ongoing_requests
    max_queued_requests max_replicas_per_node max_surge_percent name num_replicas
    placement_group_bundle_label_selector placement_group_bundles placement_group_strategy
    ray_actor_options request_router_config rolling_update_percentage user_config
    """
)
_EMBEDDED: Final = ("rayClusterSpec", "rayClusterConfig", "jobTemplate")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant, empty if none is near."""
    return next(iter(get_close_matches(word, sorted(known), n=1)), "")


def unknown_words(obj: RayObject) -> Iterator[UnknownField]:
    """Yield the keys in the specification of any kind that Ray does not know."""
    yield from _in_spec(mapping(obj.spec), "spec")


def _in_spec(spec: Mapping[str, Any], path: str) -> Iterator[UnknownField]:
    head = dig(spec, "headGroupSpec", "rayStartParams")
    yield from _parameters(head, f"{path}.headGroupSpec.rayStartParams")
    for position, group in enumerate(_items(spec.get("workerGroupSpecs"))):
        where = f"{path}.workerGroupSpecs[{position}].rayStartParams"
        yield from _parameters(group.get("rayStartParams"), where)
    for name in _EMBEDDED:
        if name in spec:
            yield from _in_spec(mapping(spec[name]), f"{path}.{name}")
    if "template" in spec:
        yield from _in_spec(mapping(dig(spec, "template", "spec")), f"{path}.template.spec")
    runtime_env = _read(spec.get("runtimeEnvYAML"), read_runtime_env)
    yield from _keys(runtime_env, RUNTIME_ENV, f"{path}.runtimeEnvYAML")
    yield from _serve(_read(spec.get("serveConfigV2"), read_serve_yaml), f"{path}.serveConfigV2")


def _parameters(parameters: Any, path: str) -> Iterator[UnknownField]:
    for name in mapping(parameters):
        if name not in START:
            yield UnknownField(f"{path}[{name}]", nearest(name, START))


def _serve(config: Mapping[str, Any], path: str) -> Iterator[UnknownField]:
    yield from _keys(config, SERVE, path)
    for position, application in enumerate(_items(config.get("applications"))):
        where = f"{path}.applications[{position}]"
        yield from _keys(application, APPLICATION, where)
        yield from _keys(application.get("runtime_env"), RUNTIME_ENV, f"{where}.runtime_env")
        for number, deployment in enumerate(_items(application.get("deployments"))):
            yield from _keys(deployment, DEPLOYMENT, f"{where}.deployments[{number}]")


def _keys(value: Any, known: frozenset[str], path: str) -> Iterator[UnknownField]:
    for name in mapping(value):
        if name not in known:
            yield UnknownField(f"{path}.{name}", nearest(name, known))


def _items(value: Any) -> list[Mapping[str, Any]]:
    return list(map(mapping, cast("list[Any]", value))) if isinstance(value, list) else []


def _read(text: Any, parse: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return the mapping; nothing if it is not valid, which validation reports."""
    try:
        return parse(text) if isinstance(text, str) else {}
    except InvalidYaml:
        return {}
