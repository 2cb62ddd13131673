"""The verbs on resources: maps method and path to an operation and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.authorization import Attributes, Rbac
from controller.devcluster.apiserver.deletion import Deleter
from controller.devcluster.apiserver.escalation import EscalationCheck
from controller.devcluster.apiserver.kinds import Quotas
from controller.devcluster.apiserver.messages import (
    WRITES,
    error_response,
    plain_not_found,
    verb_of,
)
from controller.devcluster.apiserver.object_writer import ObjectWriter
from controller.devcluster.apiserver.requests.reads import Reads
from controller.devcluster.apiserver.requests.resource_call import ResourceCall
from controller.devcluster.apiserver.requests.subresources import Subresources
from controller.devcluster.apiserver.requests.writes import Writes
from controller.devcluster.apiserver.status import (
    method_not_allowed,
    not_found,
    path_not_found,
)
from controller.devcluster.apiserver.streams.connections import CONNECTIONS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from controller.devcluster.apiserver.authorization import Audit
    from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse, ResourcePath
    from controller.devcluster.apiserver.objects import Json
    from controller.devcluster.apiserver.options import Admission
    from controller.devcluster.apiserver.requests.reads import Clock
    from controller.devcluster.apiserver.requests.subresources import Hooks
    from controller.devcluster.apiserver.resources import ApiResource
    from controller.devcluster.apiserver.store import ObjectStore
    from controller.devcluster.apiserver.streams.connections import Session
    from controller.devcluster.apiserver.streams.port_forward import PortForward


class ResourceHandler:
    """Answers requests about resources.

    Attributes:
        writer: creates and updates.
        deleter: deletes.
    """

    def __init__(
        self,
        store: ObjectStore,
        audit: Audit,
        hooks: Hooks,
        *,
        wall: Callable[[], datetime],
        clock: Clock,
        rng: random.Random,
        tracks_all_writers: bool,
    ) -> None:
        self.writer = ObjectWriter(
            store,
            Quotas(store),
            wall=wall,
            rng=rng,
            tracks_all_writers=tracks_all_writers,
            has_account=lambda namespace, name: (
                hooks.tokens is None or hooks.tokens.exists(namespace, name)
            ),
        )
        self.deleter = Deleter(store, wall=wall)
        self._reads = Reads(store, clock=clock, rng=rng)
        self._writes = Writes(store, self.writer, self.deleter)
        self._audit = audit
        self._subresources = Subresources(store, self.writer, self.deleter, hooks, wall)
        self._wall = wall

    def stop(self) -> None:
        """End all watches."""
        self._reads.stop()

    async def answer(
        self, request: ApiRequest, where: ResourcePath, resource: ApiResource
    ) -> ApiResponse:
        """Answer one request.

        Raises:
            ApiError: the request fails.
        """
        call = ResourceCall(request, where, resource, self._wall)
        verb = verb_of(request, where, custom=resource.custom)
        self._authorise(request, where, verb)
        if where.subresource and where.subresource not in resource.subresources:
            if resource.custom:
                raise not_found(resource.name, where.name)
            raise path_not_found()
        if where.subresource not in {"", "status"}:
            return await self._subresources.answer(call)
        if verb not in resource.verbs or (verb == "create" and where.subresource):
            raise method_not_allowed()
        if resource.namespaced and not where.namespace and verb not in {"list", "watch"}:
            return plain_not_found() if resource.custom else error_response(method_not_allowed())
        if verb in WRITES.values():
            return self._writes.write(verb, call, self._admission(verb, call))
        reads = {"get": self._reads.get, "list": self._reads.list, "watch": self._reads.watch}
        return reads.get(verb, self._writes.delete)(call)

    def _admission(self, verb: str, call: ResourceCall) -> Admission:
        """Return a check of what is stored; creating an object on the way needs `create` too."""
        rbac, request, where = self._audit.authorizer, call.request, call.where
        escalation = None
        if isinstance(rbac, Rbac):
            escalation = EscalationCheck(rbac, request.user, where.namespace, where.name)

        def admit(resource: ApiResource, new: Json, old: Json | None) -> None:
            if old is None and verb != "create":
                self._audit.check(_attributes(request, where, "create"))
            if escalation is not None:
                escalation(resource, new, old)

        return admit

    def connect(
        self,
        request: ApiRequest,
        where: ResourcePath,
        resource: ApiResource,
        command: Sequence[str],
    ) -> Session | PortForward:
        """Prepare a two-way connection; it takes the verb `create`, whatever the method.

        Raises:
            ApiError: it is forbidden or not possible.
        """
        self._authorise(request, where, "create")
        if where.subresource not in CONNECTIONS & resource.subresources:
            raise path_not_found()
        call = ResourceCall(request, where, resource, self._wall)
        return self._subresources.connect(call, command)

    def _authorise(self, request: ApiRequest, where: ResourcePath, verb: str) -> None:
        self._audit.admit(_attributes(request, where, verb))


def _attributes(request: ApiRequest, where: ResourcePath, verb: str) -> Attributes:
    name = f"{where.plural}/{where.subresource}" if where.subresource else where.plural
    user = request.user
    return Attributes(
        user.name,
        request.user_agent,
        verb,
        where.group,
        name,
        where.namespace,
        where.name,
        user.groups,
    )
