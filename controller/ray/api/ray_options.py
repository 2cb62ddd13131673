"""What fields hold for Ray itself: versions, environments, resources, Serve configs, known keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, starmap
from typing import Any, Final, TypeAlias, cast

import msgspec

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.object_schema import UnknownField
from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_mapping
from controller.ray.api.names import RayObject

# Ray versions as users write them in `spec.rayVersion`: `2.52.0`, `2.53.0rc1`, `nightly`.

RayVersion: TypeAlias = tuple[int, int, int]

_NUMBERS: Final = re.compile(r"\s*v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")

HTTP_PROBES_SINCE: Final[RayVersion] = (2, 53, 0)
TOKEN_AUTH_SINCE: Final[RayVersion] = (2, 52, 0)
KUBERNETES_AUTH_SINCE: Final[RayVersion] = (2, 55, 0)
JOB_METADATA_SINCE: Final[RayVersion] = (2, 6, 0)
GROUP_PRIORITY_SINCE: Final[RayVersion] = (2, 56, 0)


def parse_ray_version(text: str) -> RayVersion | None:
    """Return major, minor and patch number; None if the text begins with no two numbers."""
    match = _NUMBERS.match(text)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def is_at_least(text: str, since: RayVersion) -> bool:
    """Return whether the version can be parsed and is not older than `since`."""
    version = parse_ray_version(text)
    return version is not None and version >= since


# Reads `spec.runtimeEnvYAML` of a RayJob.

MOST_RUNTIME_ENV_BYTES: Final = 128 * 1024
"""Maximum length of one command argument in Linux; the submitter gets the text as one."""

_LIMITS: Final = YamlLimits(
    MOST_RUNTIME_ENV_BYTES, remedy="; put what is in it into the image or working_dir"
)


def read_runtime_env(text: str) -> dict[str, Any]:
    """Parse the mapping; text without a value means an empty one.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    return read_yaml_mapping(text, _LIMITS)


# `spec.entrypointResources` of a RayJob: custom resources of the driver, as JSON.


class InvalidResources(ValueError):  # noqa: N818
    """The text is not a JSON object of amounts by name."""


def read_entrypoint_resources(text: str) -> dict[str, float]:
    """Parse the amounts by name; empty text means none.

    Raises:
        InvalidResources: the text is not valid; the message is a predicate without a subject.
    """
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, float])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidResources(
            'must be JSON of amounts by name, such as {"accelerator": 1}'
        ) from error


# Parses `spec.serveConfigV2` of a RayService: the applications that Ray Serve is to run.
#
# Ray validates the rest when it receives the config. The checks here find errors that would
# otherwise appear only after a cluster has started.

MOST_SERVE_CONFIG_BYTES: Final = 1024 * 1024
"""Maximum bytes of the text; a RayService with a longer one would not fit into etcd."""

_SERVE_CONFIG_LIMITS: Final = YamlLimits(
    MOST_SERVE_CONFIG_BYTES, remedy="; put what is in it into the image or working_dir"
)

_DEFAULT_ROUTE: Final = "/"


class InvalidServeConfig(ValueError):  # noqa: N818
    """The text is not a Serve config. The message is a predicate of `spec.serveConfigV2`."""


class ServeConfig(msgspec.Struct, frozen=True):
    """A Serve config.

    Attributes:
        body: the config for Ray, without `target_capacity`.
        applications: names of its applications, in their order.
    """

    body: dict[str, Any]
    applications: tuple[str, ...]


def read_serve_yaml(text: str) -> dict[str, Any]:
    """Parse the mapping, whatever is in it; text without a value means an empty one.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    return read_yaml_mapping(text, _SERVE_CONFIG_LIMITS)


def read_serve_config(text: str) -> ServeConfig:
    """Parse a config with at least one application.

    Raises:
        InvalidServeConfig: see its message.
    """
    try:
        body = read_serve_yaml(text)
    except InvalidYaml as error:
        raise InvalidServeConfig(str(error)) from error
    if "import_path" in body and "applications" not in body:
        raise InvalidServeConfig(
            "is a config of a single application; put it into a list under the key applications"
        )
    if "target_capacity" in body:
        raise InvalidServeConfig(
            "must not set target_capacity, which the operator controls during upgrades"
        )
    applications: Any = body.get("applications")
    if not isinstance(applications, list) or not applications:
        raise InvalidServeConfig("must list at least one application under the key applications")
    return ServeConfig(body, _names(cast("list[Any]", applications)))


def _names(applications: list[Any]) -> tuple[str, ...]:
    names: dict[str, int] = {}
    routes: dict[str, int] = {}
    for position, application in enumerate(applications):
        where = f"applications[{position}]"
        fields = mapping(application)
        if not isinstance(fields.get("import_path"), str):
            near = get_close_matches("import_path", fields.keys() - {"import_path"}, n=1)
            instead = f"; it has {near[0]}" if near else ""
            raise InvalidServeConfig(
                f"must give {where} an import_path, such as `module:application`{instead}"
            )
        name, route = fields.get("name", "default"), fields.get("route_prefix", _DEFAULT_ROUTE)
        if not isinstance(name, str):
            raise InvalidServeConfig(f"must give {where} a name that is text")
        if name in names:
            raise InvalidServeConfig(
                f"has two applications with the name {name!r}, at {names[name]} and {position}; "
                "give each its own"
            )
        if isinstance(route, str) and route in routes:
            raise InvalidServeConfig(
                f"has two applications with the route_prefix {route!r}, at {routes[route]} and "
                f"{position}; give each its own"
            )
        names[name] = position
        if isinstance(route, str):
            routes[route] = position
    return tuple(names)


# The words of Ray 2.60 that users write as keys, and those in an object that it does not know.
#
# The API server takes any key here, and Ray fails on it later, or ignores it. Another Ray may know
# more words than these: they are named with the nearest known one, and block nothing.


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


Part: TypeAlias = tuple[str, Mapping[str, Any]]
"""A part of an object, after its path."""


def specifications(spec: Any, path: str = "spec") -> Iterator[Part]:
    """Yield a specification of any kind, and then those that it embeds."""
    found = mapping(spec)
    yield path, found
    for name in _EMBEDDED:
        if name in found:
            yield from specifications(found[name], f"{path}.{name}")
    if "template" in found:
        yield from specifications(dig(found, "template", "spec"), f"{path}.template.spec")


def groups_of(path: str, spec: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the groups of pods of one specification, that of the head first."""
    yield f"{path}.headGroupSpec", mapping(spec.get("headGroupSpec"))
    for position, group in enumerate(_items(spec.get("workerGroupSpecs"))):
        yield f"{path}.workerGroupSpecs[{position}]", group


def unknown_words(obj: RayObject) -> Iterator[UnknownField]:
    """Yield the keys in the specification of any kind that Ray does not know."""
    specs = tuple(specifications(obj.spec))
    for path, group in chain.from_iterable(starmap(groups_of, specs)):
        yield from _parameters(group.get("rayStartParams"), f"{path}.rayStartParams")
    for path, spec in reversed(specs):
        runtime_env = _read(spec.get("runtimeEnvYAML"), read_runtime_env)
        yield from _keys(runtime_env, RUNTIME_ENV, f"{path}.runtimeEnvYAML")
        config = _read(spec.get("serveConfigV2"), read_serve_yaml)
        yield from _serve(config, f"{path}.serveConfigV2")


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
