"""The controller of the Gateways of one GatewayClass controller name.

It accepts classes that name it, listens for their Gateways, leads pods to each by a Service, and
reports about Gateways and routes as controllers of the Gateway API do. The listener is a parameter:
a proxy with sockets in `manta dev`, only an address in tests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from controller.apimachinery.conditions import rfc3339
from controller.devcluster.gateway.definitions import GATEWAY_CLASSES, GATEWAYS, HTTP_ROUTES
from controller.devcluster.gateway.publishing import Listening, Publisher
from controller.devcluster.gateway.statuses import (
    attached_routes,
    class_status,
    gateway_status,
    route_parents,
)
from controller.devcluster.nodes.components import ComponentContext, Enqueue, LoopComponent
from controller.devcluster.nodes.objects import ENDPOINT_SLICES
from controller.kube.errors import Conflict, NotFound
from controller.kube.resources import SERVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.devcluster.gateway.definitions import Gateway, HTTPRoute
    from controller.devcluster.gateway.statuses import Status
    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource

CONTROLLER_NAME: Final = "manta.dev/gateway"
"""`spec.controllerName` of the classes that are handled."""

_EVERYTHING = ("everything",)


class Listeners(Protocol):
    """Listens for Gateways."""

    async def apply(
        self, gateways: Mapping[str, tuple[Gateway, Sequence[HTTPRoute]]]
    ) -> Mapping[str, Listening]:
        """Listen for exactly these Gateways with their routes; return the results by key."""
        ...

    async def aclose(self) -> None:
        """Stop listening."""
        ...


class GatewayController(LoopComponent[str]):
    """Reconciles all Gateways together, since there are few.

    Args:
        context: client, caches and time.
        listeners: opens the listeners.
        any_class: whether Gateways of a class that does not exist are handled too.
    """

    def __init__(
        self, context: ComponentContext, listeners: Listeners, *, any_class: bool = False
    ) -> None:
        super().__init__("gateways", context)
        self._client = context.client
        self._wall = context.wall
        self._listeners = listeners
        self._any_class = any_class
        self._classes = self._lister(context, GATEWAY_CLASSES)
        self._gateways = self._lister(context, GATEWAYS)
        self._routes = self._lister(context, HTTP_ROUTES)
        self._services = self._lister(context, SERVICES)
        slices = context.caches.informer(ENDPOINT_SLICES)
        slices.add_handler(Enqueue(self._loop.add, _of_gateways), name="gateways")
        self._publisher = Publisher(context.client, self._services, slices.lister)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await super().run()
        finally:
            await self._listeners.aclose()

    def _lister(self, context: ComponentContext, resource: Resource[Any]) -> Any:
        informer = context.caches.informer(resource)
        informer.add_handler(Enqueue(self._loop.add, _everything), name="gateways")
        return informer.lister

    async def _sync(self, key: str) -> None:
        del key
        now = rfc3339(self._wall())
        ours = [
            each for each in self._classes.list() if each.spec.controller_name == CONTROLLER_NAME
        ]
        names = {each.metadata.name for each in ours}
        if self._any_class:
            known = {each.metadata.name for each in self._classes.list()}
            names |= {each.spec.gateway_class_name for each in self._gateways.list()} - known
        gateways: dict[str, Gateway] = {
            each.metadata.key: each
            for each in self._gateways.list()
            if each.spec.gateway_class_name in names and not each.metadata.terminating
        }
        routes: list[HTTPRoute] = [
            each for each in self._routes.list() if not each.metadata.terminating
        ]
        attached = {name: (each, attached_routes(each, routes)) for name, each in gateways.items()}
        found = await self._listeners.apply(attached)
        for each in ours:
            await self._report(GATEWAY_CLASSES, each, class_status(each, now))
        for name, (gateway, its_routes) in attached.items():
            listening = found.get(name, Listening())
            if problem := await self._publisher.publish(gateway, listening):
                listening = replace(listening, problem=problem)
            status = gateway_status(gateway, its_routes, listening, now)
            await self._report(GATEWAYS, gateway, status)
        for route in routes:
            parents = route_parents(route, gateways, self._services.get, CONTROLLER_NAME, now)
            if parents:
                await self._report_route(route, parents)

    async def _report_route(self, route: HTTPRoute, parents: list[Status]) -> None:
        """Write our entries; those of other controllers stay."""
        raw = await self._raw(HTTP_ROUTES, route)
        if raw is None:
            return
        before: list[Status] = raw.get("status", {}).get("parents", [])
        others = [each for each in before if each.get("controllerName") != CONTROLLER_NAME]
        await self._write(HTTP_ROUTES, route, raw, {"parents": [*others, *parents]})

    async def _report(self, resource: Resource[Any], obj: KubeObject, status: Status) -> None:
        raw = await self._raw(resource, obj)
        if raw is not None:
            await self._write(resource, obj, raw, {**raw.get("status", {}), **status})

    async def _raw(self, resource: Resource[Any], obj: KubeObject) -> dict[str, Any] | None:
        """Return the present object, if it is still the observed one."""
        meta = obj.metadata
        try:
            raw = await self._client.get_raw(resource, meta.namespace, meta.name)
        except NotFound:
            return None
        return raw if raw["metadata"]["uid"] == meta.uid else None

    async def _write(
        self, resource: Resource[Any], obj: KubeObject, raw: dict[str, Any], status: Status
    ) -> None:
        if raw.get("status") == status:
            return
        meta = obj.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        try:
            await self._client.merge_patch(
                resource, meta.namespace, meta.name, patch, subresource="status"
            )
        except (Conflict, NotFound):
            return  # it has changed: its event enqueues it again


def _of_gateways(obj: KubeObject) -> tuple[str, ...]:
    owner = obj.metadata.controller
    return _EVERYTHING if owner is not None and owner.kind == GATEWAYS.kind else ()


def _everything(obj: KubeObject) -> tuple[str]:
    del obj
    return _EVERYTHING
