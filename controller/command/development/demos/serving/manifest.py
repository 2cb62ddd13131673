"""The RayService that a demo serves, and the edits that it makes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from controller.command.manifests import load_one
from controller.kube.errors import ConfigurationError
from controller.ray.api.rayservice import RAYSERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServeManifest:
    """The documents of a manifest.

    Attributes:
        service: the RayService.
        others: what it needs.
        config: its Serve config.
    """

    service: Json
    others: list[Json]
    config: Json

    @property
    def name(self) -> str:
        """Name of the RayService."""
        return str(self.service["metadata"]["name"])

    @property
    def image(self) -> str:
        """Image of the head."""
        return str(next(_containers(self.service["spec"]))["image"])

    @property
    def routes(self) -> dict[str, str]:
        """The paths of the applications, by name."""
        return {each["name"]: each["route_prefix"] for each in self.config["applications"]}

    def new_version(self, version: str) -> Json:
        """Return the specification with another image label and version of all applications."""
        spec = copy.deepcopy(self.service["spec"])
        for container in _containers(spec):
            container["image"] += f"-{version}"
        spec["serveConfigV2"] = self._config(dict.fromkeys(self.routes, version))
        return spec

    def new_config(self, version: str, changed: Mapping[str, str]) -> Json:
        """Return the same specification, with other versions of some applications."""
        spec = self.new_version(version)
        versions = {**dict.fromkeys(self.routes, version), **changed}
        return spec | {"serveConfigV2": self._config(versions)}

    def _config(self, versions: Mapping[str, str]) -> str:
        config = copy.deepcopy(self.config)
        for application in config["applications"]:
            for deployment in application["deployments"]:
                deployment["user_config"]["version"] = versions[application["name"]]
        return yaml.safe_dump(config, sort_keys=False)


def versions_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of each application of a Serve config, by name."""
    return {
        each["name"]: ", ".join(one["user_config"]["version"] for one in each["deployments"])
        for each in config.get("applications", ())
    }


def read_manifest(path: Path) -> ServeManifest:
    """Read a manifest.

    Raises:
        ConfigurationError: it cannot be played with.
    """
    service, others = load_one(path, RAYSERVICES)
    try:
        config = yaml.safe_load(service["spec"]["serveConfigV2"])
        manifest = ServeManifest(service, others, config)
        found = versions_of(config)
        manifest.new_version("v2")
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} cannot be played with: each deployment of its serveConfigV2 needs a "
            f"user_config with a version, which its answers repeat ({error})"
        ) from error
    if len(found) < 2:
        raise ConfigurationError(f"{path} has fewer than two applications")
    return manifest


def _containers(spec: Json) -> Iterator[Json]:
    """Yield the Ray containers: the first of each pod template, the head's first."""
    cluster = spec["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", ())):
        yield group["template"]["spec"]["containers"][0]
