"""What fields hold for Ray itself: its version, environments, resources, the Serve config."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias, cast

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_mapping

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


@dataclass(frozen=True, slots=True)
class ServeConfig:
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
