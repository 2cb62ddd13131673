"""Doubles for informer tests: a tiny object type, a scripted source and a small fake server."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from informers import (
    Added,
    Codec,
    Deleted,
    Expired,
    Notification,
    SharedInformer,
    SourceError,
    Unsupported,
    Updated,
    key_of,
)


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Thing(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Meta = Meta()
    colour: str = ""
    size: int = 0


def thing(name: str, revision: int | str, *, uid: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(revision),
    }
    return {"kind": "Thing", "metadata": metadata, **fields}


def page(items: list[dict[str, Any]], revision: int | str, token: str = "") -> bytes:
    metadata = {"resourceVersion": str(revision)} | ({"continue": token} if token else {})
    return json.dumps({"kind": "ThingList", "metadata": metadata, "items": items}).encode()


def event(kind: str, obj: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def added(name: str, revision: int, **fields: Any) -> bytes:
    return event("ADDED", thing(name, revision, **fields))


def modified(name: str, revision: int, **fields: Any) -> bytes:
    return event("MODIFIED", thing(name, revision, **fields))


def deleted(name: str, revision: int, **fields: Any) -> bytes:
    return event("DELETED", thing(name, revision, **fields))


def bookmark(revision: int | str, end: str | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if end is not None:
        metadata["annotations"] = {"k8s.io/initial-events-end": end}
    return event("BOOKMARK", {"kind": "Thing", "metadata": metadata})


def end_bookmark(revision: int | str) -> bytes:
    return bookmark(revision, end="true")


def status(code: int, reason: str = "", message: str = "", **details: Any) -> bytes:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return event("ERROR", body | ({"details": details} if details else {}))


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class Hang:
    """Wait for ever without another byte."""


@dataclass
class Opened:
    """One request to the scripted source, with its time."""

    verb: str
    query: dict[str, str]
    at: float
    closed: int = 0


Step = bytes | Pause | Hang | type[Hang] | Exception


class ScriptedSource:
    """Answers each list and each watch with the next entry of its script.

    A list entry is a body or an error. A watch entry is an error (refused) or a list of steps;
    after the last step the stream ends. Beyond the script everything hangs. Streaming lists have
    a script of their own if `streams` is given.
    """

    description = "things in all namespaces"

    def __init__(
        self,
        *,
        lists: list[Any] | None = None,
        watches: list[Any] | None = None,
        streams: list[Any] | None = None,
    ):
        self.lists = list(lists or [])
        self.watches = list(watches or [])
        self.streams = self.watches if streams is None else list(streams)
        self.requests: list[Opened] = []

    def queries(self, verb: str) -> list[dict[str, str]]:
        return [request.query for request in self.requests if request.verb == verb]

    def times(self, verb: str) -> list[float]:
        return [request.at for request in self.requests if request.verb == verb]

    def _note(self, verb: str, query: Mapping[str, str]) -> Opened:
        request = Opened(verb, dict(query), asyncio.get_running_loop().time())
        self.requests.append(request)
        return request

    async def list(self, query: Mapping[str, str]) -> bytes:
        self._note("list", query)
        await asyncio.sleep(0)
        if not self.lists:
            await asyncio.Future()
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def watch(self, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        request = self._note("watch", query)
        await asyncio.sleep(0)
        script = self.streams if "sendInitialEvents" in query else self.watches
        steps = script.pop(0) if script else [Hang]
        if isinstance(steps, Exception):
            raise steps
        if steps is Hang:
            await asyncio.Future()
        try:
            yield self._play(steps)
        finally:
            request.closed += 1

    async def _play(self, steps: list[Step]) -> AsyncIterator[bytes]:
        for step in steps:
            match step:
                case bytes():
                    yield step
                    await asyncio.sleep(0)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Exception():
                    raise step
                case _:
                    await asyncio.Future()


class EventHandler:
    """A handler with a method for each sort of change."""

    def __call__(self, change: Notification[Any]) -> None:
        match change:
            case Added(obj, initial):
                self.on_add(obj, initial=initial)
            case Updated(old, new):
                self.on_update(old, new)
            case Deleted(obj):
                self.on_delete(obj)

    def on_add(self, obj: Any, *, initial: bool) -> None: ...

    def on_update(self, old: Any, new: Any) -> None: ...

    def on_delete(self, obj: Any) -> None: ...


@dataclass
class Recorder(EventHandler):
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    fail_on: set[str] = field(default_factory=set)

    def on_add(self, obj: Thing, *, initial: bool) -> None:
        self.calls.append(("add", obj.metadata.name, obj.metadata.resource_version, initial))
        self._maybe_fail(obj)

    def on_update(self, old: Thing, new: Thing) -> None:
        assert key_of(old) == key_of(new)
        self.calls.append(
            (
                "update",
                new.metadata.name,
                old.metadata.resource_version,
                new.metadata.resource_version,
            )
        )
        self._maybe_fail(new)

    def on_delete(self, obj: Thing) -> None:
        self.calls.append(("delete", obj.metadata.name, obj.metadata.resource_version))

    def _maybe_fail(self, obj: Thing) -> None:
        if obj.metadata.name in self.fail_on:
            raise RuntimeError(f"no {obj.metadata.name} please")


def informer_of(source: Any, **keywords: Any) -> SharedInformer[Thing]:
    keywords.setdefault("rng", random.Random(7))
    return SharedInformer(
        "things", source, Codec(Thing), clock=asyncio.get_running_loop(), **keywords
    )


@asynccontextmanager
async def running(informer: SharedInformer[Thing]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(informer.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle(rounds: int = 200) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


class FakeServer:
    """One collection with revisions, a watch log, compaction, and faults to switch on.

    Attributes:
        streaming: `yes`; `no` (422); or what a server does that takes the request and does not
            know it: `ignored` (plain watch).
        raise_next: errors for the next requests, by verb.
    """

    description = "things in all namespaces"

    def __init__(self, *, revision: int = 1, streaming: str = "yes"):
        self.revision = revision
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.compacted = 0
        self.streaming = streaming
        self.raise_next: dict[str, list[SourceError]] = {"list": [], "watch": []}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.open_streams = 0
        self._changed = asyncio.Event()
        self._cut = asyncio.Event()

    def put(self, name: str, **fields: Any) -> int:
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{name}-{self.revision + 1}"
        self._commit("MODIFIED" if old else "ADDED", name, uid, fields)
        return self.revision

    def delete(self, name: str) -> int:
        uid = self.objects[name]["metadata"]["uid"]
        self._commit("DELETED", name, uid, {})
        del self.objects[name]
        return self.revision

    def _commit(self, kind: str, name: str, uid: str, fields: dict[str, Any]) -> None:
        self.revision += 1
        obj = thing(name, self.revision, uid=uid, **fields)
        self.objects[name] = obj
        self.log.append((self.revision, kind, obj))
        self._changed.set()

    def cut(self) -> None:
        self._cut.set()
        self._cut = asyncio.Event()

    def compact(self) -> None:
        self.compacted = self.revision
        self.log.clear()

    async def list(self, query: Mapping[str, str]) -> bytes:
        self.requests.append(("list", dict(query)))
        await asyncio.sleep(0)
        if self.raise_next["list"]:
            raise self.raise_next["list"].pop(0)
        return page(list(self.objects.values()), self.revision)

    @asynccontextmanager
    async def watch(self, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(("watch", dict(query)))
        await asyncio.sleep(0)
        if self.raise_next["watch"]:
            raise self.raise_next["watch"].pop(0)
        initial = "sendInitialEvents" in query
        if initial and self.streaming == "no":
            raise Unsupported("sendInitialEvents is forbidden")
        start = int(query.get("resourceVersion") or 0)
        if not initial and start < self.compacted:
            raise Expired("too old resource version")
        self.open_streams += 1
        try:
            yield self._events(start, initial=initial)
        finally:
            self.open_streams -= 1

    async def _events(self, start: int, *, initial: bool) -> AsyncIterator[bytes]:
        cut = self._cut
        if initial and self.streaming == "yes":
            start = self.revision
            for obj in list(self.objects.values()):
                yield event("ADDED", obj)
                await asyncio.sleep(0)
            yield end_bookmark(start)
        while not cut.is_set():
            self._changed.clear()
            for revision, kind, obj in [entry for entry in self.log if entry[0] > start]:
                start = revision
                yield event(kind, obj)
                if cut.is_set():
                    return
            waits = [asyncio.ensure_future(e.wait()) for e in (self._changed, cut)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
