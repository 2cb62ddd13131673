"""The verbs of the Kubernetes API over any transport, typed by resource.

Reads give partial views, writes take plain data. Every non-2xx status is an exception of
`errors.py`, and the kind of every 2xx body is checked.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from controller.kube import transport
from controller.kube.errors import OutcomeUnknown, UnexpectedResponse, WriteUnconfirmed
from controller.kube.limits import FairLimiter, RateLimiter
from controller.kube.objects import KubeObject, ObjectList
from controller.kube.resources import PODS, Resource
from controller.kube.sender import Pauses, Sender
from controller.kube.transport import (
    MAX_RETRY_AFTER,
    Chunks,
    ClientMetrics,
    Request,
    Response,
    Transport,
)
from informers import Clock

T = TypeVar("T", bound=KubeObject)

LIST_TIMEOUT = 60.0
"""Seconds: the API server itself gives up after a minute."""

PAGE_SIZE = 500
"""Objects a page of a list whose size nothing bounds."""

CONCURRENCY = 80
"""Default limit of concurrent requests."""

LOG_TIMEOUT = 10.0
"""Seconds for the tail of a log, which the API server reads from a node that may be down."""

LOG_OVERFETCH = 16
"""`limitBytes` cuts off the end of a tail, so this many times the wanted bytes are requested."""

PROXY_TIMEOUT = 10.0
"""Default seconds for a request to a service through the API server."""


class Client:
    """Access to one API server.

    A lost response is not a failure: a write raises `OutcomeUnknown` if the server may have
    executed it. After a cancellation the caller must assume the same.

    Args:
        user_agent: the program and its component, for the server's audit log.
        clock: for time limits, pauses and retries; production passes the running loop.
        concurrency: limit of concurrent requests (THR-2); watches and proxied requests are exempt.
        timeout: seconds that a call may wait and retry, and then seconds for one attempt.
        qps: maximum requests a second, apart from watches; None for no limit.
        burst: requests that may be sent at once, if there is a limit.
        longest_pause: seconds; a longer `Retry-After` is cut to this.

    Attributes:
        flow: the flow that requests are counted for, empty for none. See `for_flow`.
        on_silence: called while a request stays unanswered for longer than `SILENCE`.
        field_manager: the name under which the server records writes of this client.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str,
        clock: Clock,
        concurrency: int = CONCURRENCY,
        timeout: float = 30.0,
        metrics: ClientMetrics | None = None,
        qps: float | None = None,
        burst: int = 10,
        longest_pause: float = MAX_RETRY_AFTER,
    ) -> None:
        self.field_manager = user_agent.partition("/")[0]
        self._timeout = timeout
        self.flow = ""
        self.on_silence: Callable[[OutcomeUnknown], None] | None = None
        self._sender = Sender(
            transport,
            user_agent=user_agent,
            clock=clock,
            concurrency=concurrency,
            timeout=timeout,
            metrics=metrics,
            rate_limiter=RateLimiter(qps, burst, clock) if qps else None,
            longest_pause=longest_pause,
        )

    @property
    def pauses(self) -> Pauses:
        """The pauses that the server has asked for, of all requests or of some."""
        return self._sender.pauses

    @property
    def limiter(self) -> FairLimiter:
        """The slots for requests, shared by all flows."""
        return self._sender.limiter

    def for_flow(
        self, flow: str, on_silence: Callable[[OutcomeUnknown], None] | None = None
    ) -> Client:
        """Return this client for requests on behalf of `flow`, usually the uid of an object.

        All flows share the slots fairly. Requests without a flow are bounded by the slots alone.
        `on_silence` is called while one of them stays unanswered for longer than `SILENCE`.
        """
        client = copy.copy(self)
        client.flow, client.on_silence = flow, on_silence
        return client

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read one object."""
        answer = await self._read(resource.path(namespace, _non_empty(name)))
        return transport.decode_object(answer.body, resource)

    async def get_raw(self, resource: Resource[T], namespace: str, name: str) -> dict[str, Any]:
        """Read one object as plain data: complete, so that it can be changed and `replace`d."""
        answer = await self._read(resource.path(namespace, _non_empty(name)))
        return transport.decode_plain(answer.body, resource.kind)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
    ) -> ObjectList[T]:
        """Read one page of a collection at quorum, or all of it without a `limit`."""
        answer = await self._list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_=continue_,
        )
        return transport.decode_list(answer.body, resource)

    async def list_metadata(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        limit: int = 0,
        continue_: str = "",
    ) -> ObjectList[KubeObject]:
        """Read one page of a collection at quorum, the metadata only.

        Objects that do not fit their type are listed too; what cannot be decoded of their metadata
        is missing.
        """
        answer = await self._list(
            resource, namespace, label_selector=label_selector, limit=limit, continue_=continue_
        )
        return transport.decode_metadata_list(answer.body, resource)

    async def read_log_tail(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        lines: int,
        limit_bytes: int,
        previous: bool = False,
    ) -> str:
        """Read the last lines of a container's log, or of its run before the present one.

        Bytes are counted from the end; those that are not UTF-8 are replaced.

        Raises:
            BadRequest: the container does not exist or has not started.
        """
        query = {
            "container": container,
            "tailLines": str(lines),
            "limitBytes": str(LOG_OVERFETCH * limit_bytes),
            **({"previous": "true"} if previous else {}),
        }
        path = PODS.path(namespace, _non_empty(pod), "log")
        answer = await self._read(path, query, timeout=LOG_TIMEOUT)
        return answer.body[-limit_bytes:].decode(errors="replace")

    async def create(self, resource: Resource[T], namespace: str, body: Mapping[str, Any]) -> T:
        """POST an object. Raises `AlreadyExists` if its name is taken."""
        return await self._write("POST", resource.path(namespace), body, resource)

    async def merge_patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> T:
        """Change the named members (RFC 7386).

        `metadata.resourceVersion` and `metadata.uid` in the patch are preconditions.
        """
        path = resource.path(namespace, _non_empty(name), subresource)
        return await self._write("PATCH", path, patch, resource, transport.MERGE_PATCH)

    async def json_patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
    ) -> T:
        """Apply operations (RFC 6902). A failed `test` raises `Invalid`."""
        path = resource.path(namespace, _non_empty(name), subresource)
        return await self._write("PATCH", path, list(operations), resource, transport.JSON_PATCH)

    async def replace(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> T:
        """PUT a complete object that came from `get_raw`.

        Raises:
            TypeError: `body` is or contains a partial view.
            Conflict: its `metadata.resourceVersion` is outdated.
        """
        path = resource.path(namespace, _non_empty(name), subresource)
        return await self._write("PUT", path, body, resource)

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> T | None:
        """Delete one object; raises `Conflict` if that of this name has another `uid`.

        Returns:
            The object in its new state, or None if the server only confirmed the deletion.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        path = resource.path(namespace, _non_empty(name))
        answer = await self._send(_with_body("DELETE", path, options, transport.JSON))
        status = transport.parse_status(answer)
        if status is not None:
            return None
        return _confirmed(answer, resource)

    async def proxy(
        self,
        resource: Resource[Any],
        namespace: str,
        target: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float = PROXY_TIMEOUT,  # noqa: ASYNC109  part of the public time budget
        limit: int = transport.MAX_BODY,
    ) -> Response:
        """Send a request to the service or pod `name:port` through the API server.

        What the service or pod responds is returned whatever its status. The request is sent once:
        without a slot, a pause or a retry. `limit` is the maximum size of a 2xx body in bytes.

        Raises:
            StatusError: the API server rejected the request or could not reach the target.
            UnexpectedResponse: the body is longer than `limit`; `WriteUnconfirmed` but for a GET.
            TransportError: see `errors.py`.
        """
        proxied = resource.path(namespace, _non_empty(target), "proxy")
        request = Request(method, f"{proxied}/{path.lstrip('/')}", query or {}, headers or {}, body)
        answer = await self._sender.send_once(request, timeout=timeout, limit=limit)
        if not answer.ok and transport.parse_status(answer) is not None:
            raise transport.error_from_response(answer)
        return answer

    async def request_json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: transport.ContentType = transport.JSON,
    ) -> Any:
        """Send any request, such as discovery, `/version` or `/healthz`.

        Returns:
            Plain data; for `text/plain` the text.
        """
        if body is None:
            request = Request(method, path, query or {})
        else:
            request = _with_body(method, path, body, content_type, query)
        answer = await self._send(request)
        if answer.headers.get("content-type", "").startswith("text/plain"):
            return answer.body.decode(errors="replace")
        return transport.decode_plain(answer.body)

    async def read_page(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return the body of one GET, which is not retried: for readers with their own back-off."""
        answer = await self._sender.send(
            Request("GET", path, query), flow=self.flow, timeout=LIST_TIMEOUT, repeat=False
        )
        if not answer.ok:
            raise transport.error_from_response(answer)
        return answer.body

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Chunks]:
        """Open an endless GET and yield its chunks. Leaving the context closes it.

        Raises:
            StatusError: the status is not 2xx.
            UnexpectedResponse: the content type is not JSON.
            TransportError: on opening and while iterating.
        """
        request = Request("GET", path, query)
        async with self._sender.stream(request, start_timeout=self._timeout) as answer:
            status, headers, chunks = answer
            if not 200 <= status < 300:
                body = await transport.read_body(status, chunks)
                raise transport.error_from_response(Response(status, headers, body))
            content_type = headers.get("content-type", "")
            if not content_type.startswith("application/json"):
                raise UnexpectedResponse(f"{request}: a stream of {content_type or 'unknown type'}")
            yield chunks

    async def _list(
        self,
        resource: Resource[Any],
        namespace: str,
        *,
        label_selector: str,
        limit: int,
        continue_: str,
        field_selector: str = "",
    ) -> Response:
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
            "continue": continue_,
        }
        given = {name: value for name, value in query.items() if value}
        return await self._read(resource.path(namespace), given, timeout=LIST_TIMEOUT)

    async def _read(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  passed on to the sender
    ) -> Response:
        return await self._send(Request("GET", path, query or {}), timeout=timeout)

    async def _send(self, request: Request, *, timeout: float | None = None) -> Response:  # noqa: ASYNC109  as above
        answer = await self._sender.send(
            request, flow=self.flow, timeout=timeout, on_silence=self.on_silence
        )
        if not answer.ok:
            raise transport.error_from_response(answer)
        return answer

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        resource: Resource[T],
        content_type: transport.ContentType = transport.JSON,
    ) -> T:
        answer = await self._send(_with_body(method, path, body, content_type))
        return _confirmed(answer, resource)


def _non_empty(name: str) -> str:
    """Reject an empty name, which would give the path of the whole collection."""
    if not name:
        raise ValueError("an object's name must not be empty")
    return name


def _with_body(
    method: str,
    path: str,
    body: Any,
    content_type: transport.ContentType,
    query: Mapping[str, str] | None = None,
) -> Request:
    return Request(
        method, path, query or {}, {"content-type": content_type}, transport.encode(body)
    )


def _confirmed(answer: Response, resource: Resource[T]) -> T:
    """Return the object in the response to a write; without it the outcome is unknown."""
    try:
        return transport.decode_object(answer.body, resource)
    except UnexpectedResponse as error:
        raise WriteUnconfirmed(f"HTTP {answer.status}: {error}") from error
