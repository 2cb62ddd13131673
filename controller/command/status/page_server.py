"""Answers requests for the page: who asks, what he may see, and the templates."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import structlog
from aiohttp import hdrs, web
from msgspec import Struct

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import mapping
from controller.command.output import Redaction, duration
from controller.command.status.objects import Tree
from controller.command.status.page import ROWS, Query, details, events_wanted, listing
from controller.command.status.reading import EVENTS, KINDS, Seen, SeenEvent
from controller.command.status.run import colour_of
from controller.command.status.tree import tree
from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.kube.objects import Pod
from controller.kube.resources import PODS, Resource
from controller.ray.api.pod_state import START_COMMAND, SUBMISSION_ID, container_with
from controller.runtime.health import HttpListener

if TYPE_CHECKING:
    from jinja2 import Environment


_REMEMBERED: Final = 10.0
"""Seconds for which an answer of the API server counts."""
_MOST_USERS: Final = 1000


class Viewer:
    """An authenticated user; `decide` takes the `resourceAttributes` of a SubjectAccessReview."""

    def __init__(self, decide: Callable[[dict[str, str]], Awaitable[bool]]) -> None:
        self._decide = decide
        self._decided: dict[tuple[str, ...], bool] = {}

    async def may(
        self,
        verb: str,
        resource: Resource[Any],
        namespace: str,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """Return whether the user may do this; an empty namespace means all of them.

        Raises:
            KubeError: nobody can tell.
        """
        key = (verb, resource.group, resource.plural, namespace, name, subresource)
        if key not in self._decided:
            names = ("verb", "group", "resource", "namespace", "name", "subresource")
            asked = {each: value for each, value in zip(names, key, strict=True) if value}
            self._decided[key] = await self._decide({**asked, "version": resource.version})
        return self._decided[key]


class OwnerOnly:
    """Lets the one who has the token see everything."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def viewer(self, token: str) -> Viewer | None:
        """Return the user with this token; None if it is not valid."""
        given = token.encode(errors="surrogateescape")
        return Viewer(_everything) if hmac.compare_digest(given, self._token) else None


async def _everything(_asked: dict[str, str]) -> bool:
    return True


class Reviewed:
    """Asks the API server, which needs the rights of `system:auth-delegator`.

    The client must not be fenced: replicas that do not lead answer, too.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._known: dict[bytes, tuple[float, Viewer | None]] = {}

    async def viewer(self, token: str) -> Viewer | None:
        """Return the user with this token; None if it is not valid.

        Raises:
            KubeError: nobody can tell.
        """
        if not token:
            return None
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        until, known = self._known.get(key, (0.0, None))
        if self._now() < until:
            return known
        found = await _reviewed(
            self._client, "authentication.k8s.io", "TokenReview", {"token": token}
        )
        user = mapping(found.get("user"))
        valid = found.get("authenticated") is True and bool(user.get("username"))
        if len(self._known) >= _MOST_USERS:
            self._known.clear()
        viewer = Viewer(_ReviewedUser(self._client, user).may) if valid else None
        self._known[key] = self._now() + _REMEMBERED, viewer
        return viewer


class _ReviewedUser(Struct, frozen=True):
    client: Client
    user: dict[str, Any]

    async def may(self, asked: dict[str, str]) -> bool:
        who = {each: self.user[each] for each in ("uid", "groups", "extra") if each in self.user}
        spec = {"user": self.user["username"], **who, "resourceAttributes": asked}
        found = await _reviewed(self.client, "authorization.k8s.io", "SubjectAccessReview", spec)
        return found.get("allowed") is True


async def _reviewed(client: Client, group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a review."""
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
    path = f"/apis/{group}/v1/{kind.lower()}s"
    return mapping(mapping(await client.request_json("POST", path, body=body)).get("status"))


def token_of(authorization: str) -> str:
    """Return the token of the header `Authorization`, empty if there is none.

    Programs send it as `Bearer`. Browsers can only send a password: with any name, it is the token.
    """
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


_TEMPLATES: Final = Path(__file__).with_name("templates")
_FILES: Final = {"page.css": "text/css", "icon.svg": "image/svg+xml"}
_PLURALS: Final = {each.plural: each for each in KINDS}
_EVENTS_OF: Final = 12
"""Objects of a tree whose events are asked for, each by one request."""
_LOG_LINES: Final = 200
_LOG_BYTES: Final = 64 * 1024
_REFRESH: Final = 5
"""Seconds after which a page that shall be kept up to date asks again."""
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_VIEWER: Final = web.RequestKey("viewer", Viewer)

_log = structlog.stdlib.get_logger("manta.page")


class _Problem(Exception):  # noqa: N818  it becomes an answer
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class PageServer(HttpListener):
    """A `manager.Runnable` that serves the page on the loopback interface; port 0 is a free one.

    `read` returns what the caches hold, of a namespace or, if it is empty, of all; the client reads
    events and logs of one object. `option` chooses the port, for the error's text. `direct` means
    that the addresses of pods can be reached from the browser.
    """

    name = "page server"

    def __init__(
        self,
        port: int,
        *,
        read: Callable[[str], Seen],
        client: Client,
        access: OwnerOnly | Reviewed,
        wall: Callable[[], datetime],
        option: str,
        direct: bool = False,
    ) -> None:
        super().__init__("127.0.0.1", port, option)
        self._read = read
        self._client = client.for_flow("page")
        self._access = access
        self._wall = wall
        self._direct = direct

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped.

        Raises:
            OSError: the port is taken.
        """
        application = web.Application(middlewares=[self._guarded])
        for path, handler in (
            ("/", self._list),
            ("/{file:page.css|icon.svg}", self._file),
            ("/{plural}/{namespace}/{name}", self._object),
        ):
            application.router.add_get(path, handler)
        await self.serve_application(application, ready)

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer authenticated requests only, and problems as pages."""
        try:
            request[_VIEWER] = await self._viewer(request)
            answer = await handler(request)
        except _Problem as problem:
            answer = await _problem_page(problem.status, str(problem))
        except web.HTTPException as error:
            answer = await _problem_page(error.status, f"There is no page {request.path}.")
        except KubeError as error:
            answer = await _problem_page(503, f"The API server could not be asked: {error}")
        except Exception:  # noqa: BLE001  the words of an odd exception are for the log
            _log.exception("page.failed", path=request.path)
            answer = await _problem_page(500, "This page could not be made; the log says why.")
        if answer.status == 401:
            answer.headers[hdrs.WWW_AUTHENTICATE] = 'Basic realm="Manta", charset="UTF-8"'
        answer.headers.update(_HEADERS)
        answer.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
        return answer

    async def _viewer(self, request: web.Request) -> Viewer:
        viewer = await self._access.viewer(token_of(request.headers.get("Authorization", "")))
        if viewer is None:
            raise _Problem(401, "This page needs a token, as the password of any name.")
        return viewer

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["file"]
        return web.Response(
            body=(_TEMPLATES / name).read_bytes(),
            content_type=_FILES[name],
            headers={hdrs.CACHE_CONTROL: "private, max-age=600"},
        )

    async def _list(self, request: web.Request) -> web.Response:
        given = request.query
        page = given.get("page", "1")
        query = Query(
            given.get("kind", ""),
            given.get("namespace", "").strip(),
            given.get("q", "").strip(),
            given.get("state", ""),
            int(page) if page.isdecimal() and len(page) < 7 else 1,
        )
        seen = await self._visible(request[_VIEWER], query.namespace)
        now = self._wall()
        found = None
        if seen.objects:
            found = await asyncio.to_thread(listing, seen, query, now)
        kinds = [each.plural for each in seen.objects]
        return await self._page(request, "list.html", now, query=query, found=found, kinds=kinds)

    async def _visible(self, viewer: Viewer, namespace: str) -> Seen:
        """Return what the user may list; without a right to list objects of Ray, nothing."""
        seen = self._read(namespace)
        asked = {each.plural: each for each in seen.found}
        allowed = await asyncio.gather(
            *(
                viewer.may("list", each, namespace if each.namespaced else "")
                for each in asked.values()
            )
        )
        where = f"namespace {namespace}" if namespace else "all namespaces"
        refused = [each for each, may in zip(asked, allowed, strict=True) if not may]
        return Seen(
            {each: items for each, items in seen.found.items() if each.plural not in refused},
            [
                *seen.missing,
                *(f"{each} of {where}: you lack the right to list them" for each in refused),
            ],
        )

    async def _object(self, request: web.Request) -> web.Response:
        plural, namespace, name = (
            request.match_info[key] for key in ("plural", "namespace", "name")
        )
        resource, viewer = _PLURALS.get(plural), request[_VIEWER]
        if resource is None:
            raise _Problem(404, f"There is no page of {plural}; of {', '.join(_PLURALS)} there is.")
        if not await viewer.may("get", resource, namespace, name):
            raise _Problem(403, f"You lack the right to get {plural} {name} of {namespace}.")
        obj = next(
            (
                each
                for each in self._read(namespace).objects.get(resource, [])
                if each.metadata.name == name
            ),
            None,
        )
        if obj is None:
            raise _Problem(404, f"There is no {resource.kind} {name} in namespace {namespace}.")
        seen, now = await self._visible(viewer, namespace), self._wall()
        found = await asyncio.to_thread(tree, seen, resource, obj, now)
        if await viewer.may("list", EVENTS, namespace):
            seen.found[EVENTS] = await self._events(found, namespace)
        else:
            seen.missing.append("events: you lack the right to list them")
        log_of = request.query.get("log", "")
        shown = details(seen, obj, found, now, log_of=log_of, direct=self._direct)
        log = await self._log(viewer, shown.log_pod, log_of)
        return await self._page(
            request,
            "object.html",
            now,
            found=found,
            shown=shown,
            log=log,
            plural=plural,
            kinds=[each.plural for each in seen.objects],
            missing=seen.missing,
            sees_pods=any(each.plural == PODS.plural for each in seen.found),
        )

    async def _events(self, found: Tree, namespace: str) -> list[SeenEvent]:
        async def of(kind: str, name: str) -> list[SeenEvent]:
            selector = f"regarding.kind={kind},regarding.name={name}"
            listed = await self._client.list(EVENTS, namespace, field_selector=selector, limit=ROWS)
            return listed.items

        lists = await asyncio.gather(*(of(*each) for each in events_wanted(found, _EVENTS_OF)))
        return [event for each in lists for event in each]

    async def _log(self, viewer: Viewer, pod: Pod | None, wanted: str) -> str:
        """Return the end of the log of a pod, or why there is none."""
        if pod is None:
            return f"The pod {wanted} is gone, and its log with it." if wanted else ""
        meta = pod.metadata
        if not await viewer.may("get", PODS, meta.namespace, meta.name, "log"):
            return "You lack the right to get the logs of pods."
        container = container_with(pod.spec.containers, START_COMMAND, SUBMISSION_ID)
        try:
            text = await self._client.read_log_tail(
                meta.namespace,
                meta.name,
                container=container.name if container is not None else "",
                lines=_LOG_LINES,
                limit_bytes=_LOG_BYTES,
            )
        except KubeError as error:
            return f"There is no log: {error}"
        return Redaction().text(text) or "The log is empty."

    async def _page(
        self, request: web.Request, template: str, now: datetime, **values: Any
    ) -> web.Response:
        live = "live" in request.query
        options = {key: each for key, each in request.query.items() if key != "live"}
        toggled = options if live else {**options, "live": "1"}
        values |= {"live": live, "toggle": f"?{urlencode(toggled)}"}
        answer = web.Response(
            text=await asyncio.to_thread(_render, template, now, values), content_type="text/html"
        )
        if live:
            answer.headers["Refresh"] = str(_REFRESH)
        return answer


async def _problem_page(status: int, text: str) -> web.Response:
    page = await asyncio.to_thread(_render, "problem.html", None, {"status": status, "text": text})
    return web.Response(status=status, text=page, content_type="text/html")


def _render(template: str, now: datetime | None, values: dict[str, Any]) -> str:
    return _environment().get_template(template).render(now=now, **values)


@cache
def _environment() -> Environment:
    """Return the templates; most operators never need them."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment: Any = Environment(  # its dictionaries are typed by what they hold at first
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plurals = {each.kind: each.plural for each in KINDS}
    titles = {plural: f"{kind}s" for kind, plural in plurals.items()}
    environment.globals.update(colour=colour_of, plurals=plurals, titles=titles, most=ROWS)
    environment.filters.update(ago=_ago, query=_query)
    return environment


def _query(values: dict[str, Any]) -> str:
    return urlencode({name: each for name, each in values.items() if each})


def _ago(moment: Any, now: datetime) -> str:
    """Return the time since a moment, which may be text: `3 min`."""
    since = time_of(moment) if isinstance(moment, str) else moment
    return duration(max(0.0, (now - since).total_seconds())) if since else "-"
