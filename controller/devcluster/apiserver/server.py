"""The embedded API server: one function that answers requests from a store in memory."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime

from controller.devcluster.apiserver.authentication import User
from controller.devcluster.apiserver.authorization import Audit, RequestKey, review
from controller.devcluster.apiserver.crd import Definitions
from controller.devcluster.apiserver.discovery import Discovery
from controller.devcluster.apiserver.kinds import builtin_resources
from controller.devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ReceivedRequest,
    error_response,
    json_response,
    lower_case,
    parse_resource_path,
    plain_not_found,
)
from controller.devcluster.apiserver.object_writer import ObjectWriter
from controller.devcluster.apiserver.objects import Json
from controller.devcluster.apiserver.options import WriteOptions
from controller.devcluster.apiserver.requests.handler import ResourceHandler
from controller.devcluster.apiserver.requests.subresources import Hooks
from controller.devcluster.apiserver.resources import Registry
from controller.devcluster.apiserver.sessions import PortForward, Session
from controller.devcluster.apiserver.status import ApiError, path_not_found
from controller.devcluster.apiserver.store import ObjectStore, StoredEvent

PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NAMESPACES = ("kube-system", "default", "kube-node-lease", "kube-public")


def create_initial_objects(writer: ObjectWriter, registry: Registry) -> None:
    """Create the initial objects."""

    def create(group: str, plural: str, namespace: str, body: Json) -> None:
        resource = registry.find(group, "v1", plural)
        assert resource is not None
        writer.create(resource, namespace, body, WriteOptions())

    for name, value in PRIORITIES.items():
        body: Json = {"metadata": {"name": name}, "value": value}
        create("scheduling.k8s.io", "priorityclasses", "", body)
    for name in NAMESPACES:
        create("", "namespaces", "", {"metadata": {"name": name}})
    service: Json = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
        },
    }
    create("", "services", "default", service)


class ApiServer:
    """A Kubernetes API server without a network.

    Attributes:
        store: all objects; tests may look inside.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], datetime],
        clock: asyncio.AbstractEventLoop,
        rng: random.Random,
        history: int = 4096,
        tracks_all_writers: bool = False,
    ) -> None:
        """Start with the namespaces that every cluster has.

        Args:
            wall: UTC time, for timestamps.
            clock: monotonic time and timers, for watches.
            rng: for uids, generated names, addresses and watch lifetimes.
            history: number of transitions per resource that can still be watched.
            tracks_all_writers: whether `managedFields` are kept from every object's creation on,
                which makes writes slower. Otherwise they are kept of objects whose creator said
                its field manager, as kubectl does, and of objects that were applied.
        """
        self.store = ObjectStore(history=history)
        self.audit = Audit()
        self.hooks = Hooks()
        self._registry = Registry(builtin_resources(self.store, rng, wall))
        self._discovery = Discovery(self._registry)
        self._handler = ResourceHandler(
            self.store,
            self.audit,
            self.hooks,
            wall=wall,
            clock=clock,
            rng=rng,
            tracks_all_writers=tracks_all_writers,
        )
        Definitions(self.store, self._registry, self._handler.deleter)
        create_initial_objects(self._handler.writer, self._registry)

    @property
    def on_write(self) -> list[Callable[[StoredEvent], None]]:
        """Callbacks after each transition of the store."""
        return self.store.on_write

    @property
    def requests_by_user_agent(self) -> Counter[RequestKey]:
        """Numbers of requests by user agent, verb and resource."""
        return self.audit.requests

    def compact(self) -> None:
        """Drop all history: older revisions answer 410 from now on, as after compaction."""
        self.store.compact()

    async def request(
        self, request: ReceivedRequest, *, sender: User | None = None
    ) -> tuple[int, dict[str, str], AsyncGenerator[bytes, None]]:
        """Answer one request.

        Returns:
            Status, headers with lower-case names, and the body in chunks; a watch's body ends
            when the watch does.
        """
        try:
            answer = await self._answer(_received(request, sender))
        except ApiError as error:
            answer = error_response(error)
        answer.headers["cache-control"] = "no-cache, private"
        return answer.status, answer.headers, answer.chunks

    def connect(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        command: Sequence[str],
        *,
        sender: User | None = None,
    ) -> Session | PortForward:
        """Prepare a two-way connection to a pod; `command` has all values of that parameter.

        Raises:
            ApiError: it is forbidden or not possible.
        """
        request = ApiRequest("GET", path, query, lower_case(headers), None, sender)
        where = parse_resource_path(path)
        resource = self._registry.find(where.group, where.version, where.plural) if where else None
        if where is None or resource is None:
            raise path_not_found()
        return self._handler.connect(request, where, resource, command)

    async def _answer(self, request: ApiRequest) -> ApiResponse:
        where = parse_resource_path(request.path)
        if where is None:
            return self._discovery.answer(request)
        resource = self._registry.find(where.group, where.version, where.plural)
        if resource is not None:
            return await self._handler.answer(request, where, resource)
        reviewed = review(request, where, self.audit, self.hooks.tokens)
        if reviewed is not None:
            return json_response(201, reviewed)
        if self._registry.is_builtin(where.group):
            raise path_not_found()
        return plain_not_found()

    async def aclose(self) -> None:
        """End all watches."""
        self._handler.stop()


def _received(request: ReceivedRequest, sender: User | None) -> ApiRequest:
    headers = lower_case(request.headers)
    return ApiRequest(request.method, request.path, request.query, headers, request.body, sender)
