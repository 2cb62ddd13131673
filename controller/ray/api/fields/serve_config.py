"""Parses `spec.serveConfigV2` of a RayService: the applications that Ray Serve is to run.

Ray validates the rest when it receives the config. The checks here find errors that would otherwise
appear only after a cluster has started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_mapping

MOST_BYTES: Final = 1024 * 1024
"""Maximum bytes of the text; a RayService with a longer one would not fit into etcd."""

_LIMITS: Final = YamlLimits(MOST_BYTES, remedy="; put what is in it into the image or working_dir")

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


def read_serve_config(text: str) -> ServeConfig:
    """Parse a config with at least one application.

    Raises:
        InvalidServeConfig: see its message.
    """
    try:
        body = read_yaml_mapping(text, _LIMITS)
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
            raise InvalidServeConfig(
                f"must give {where} an import_path, such as `module:application`"
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
