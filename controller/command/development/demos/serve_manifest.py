"""The RayService that a demo serves, and the edits that it makes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from controller.command.manifests import load_one
from controller.kube.errors import ConfigurationError
from controller.ray.api.rayservice import RAYSERVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from controller.devcluster.apiserver import ApiServer
    from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse, ResourcePath


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


# The Serve configs that clusters get, seen where they pass: at the API server's proxy.

_PATH = "/api/serve/applications/"
_HEAD_SERVICE = "-head-svc"


@dataclass(frozen=True, slots=True)
class Put:
    """One PUT of a Serve config.

    Attributes:
        cluster: whose head got it.
        versions: versions of the applications, by name.
        capacity: `target_capacity` in percent; None if it has none.
        status: status of the answer; 0 if there was none.
    """

    cluster: str
    versions: Mapping[str, str]
    capacity: int | None
    status: int

    def text(self) -> str:
        """Return the PUT in one line."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        capacity = "" if self.capacity is None else f", capacity {self.capacity} %"
        return f"PUT to {self.cluster}: {versions}{capacity} ({self.status or 'no answer'})"


class PutRecorder:
    """Records every PUT of a Serve config that goes through the API server.

    Args:
        server: whose proxy is wrapped.
        saw: called with each PUT once it has been answered.
    """

    def __init__(self, server: ApiServer, saw: Callable[[Put], None]) -> None:
        assert server.hooks.service_proxy is not None
        self._forward = server.hooks.service_proxy
        self._saw = saw
        server.hooks.service_proxy = self

    async def __call__(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Forward a request; see `Hooks.service_proxy`."""
        status = 0
        try:
            response = await self._forward(request, where)
            status = response.status
        finally:
            if request.method == "PUT" and f"/{where.rest.lstrip('/')}" == _PATH:
                self._saw(_put(where.name, request.body or b"{}", status))
        return response


def _put(service: str, body: bytes, status: int) -> Put:
    """Return a PUT by the service that it was sent to, `[scheme:]NAME[:port]`."""
    parts = service.split(":")
    name = parts[1] if len(parts) == 3 else parts[0]
    config: dict[str, Any] = msgspec.json.decode(body)
    capacity = config.get("target_capacity")
    return Put(name.removesuffix(_HEAD_SERVICE), versions_of(config), capacity, status)
