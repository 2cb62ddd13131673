"""The Serve configs that clusters get, seen where they pass: at the API server's proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from controller.command.development.demos.serving.manifest import versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.devcluster.apiserver import ApiServer
    from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse, ResourcePath

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
