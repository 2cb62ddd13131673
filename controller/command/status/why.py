"""The command `manta why`: which decision made, changed or deleted an object, and what tells so.

The API server keeps no history. What is left of a decision are events, for an hour by default; the
last writer of each field; conditions with the times of their last change; and what an owner has
recorded. What none of these tells is said to be unknown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TextIO

import msgspec

from controller.apimachinery.conditions import rfc3339, time_of
from controller.apimachinery.custom_object import dig, mapping, mappings
from controller.command.connection import ConnectionOptions
from controller.command.output import CommandOutput, aligned, parse_target
from controller.command.status.objects import model_cause, model_state
from controller.command.status.reading import EVENTS, KINDS, MODEL_KINDS, Seen, SeenEvent, read
from controller.command.status.run import condition_text, event_text
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kube.client import Client
from controller.kube.errors import Forbidden, NotFound, PathNotFound
from controller.kube.resources import JOBS, PODS, SERVICES, STATEFUL_SETS, Resource

Json = dict[str, Any]

EXPLAINED: Final[tuple[Resource[Any], ...]] = (
    PODS,
    *KINDS,
    JOBS,
    SERVICES,
    STATEFUL_SETS,
    NODE_CLAIMS,
)
_SPECIFICATION: Final = frozenset({"f:spec", "f:resource", "f:inference", "f:tuning"})
"""The fields of specifications; a Workspace has three of them beside `metadata`."""
_NEAR: Final = timedelta(seconds=30)
"""Time within which an event about several objects at once may be about this one."""
_SEVERAL: Final = re.compile(r"\b\d+ (pods|RayClusters|RayJobs)\b")
_MOST_FIELDS: Final = 6
_UNTRACKED: Final = "before-first-apply"
"""Manager of fields that were written before the API server tracked managers."""
_LOST: Final = frozenset({"Evicted", "Preempted", "TaintManagerEviction"})
"""Reasons of events of schedulers, nodes and controllers that end a pod."""


class Fact(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is known: when, from what (`event`, `writer`, `condition`), and what."""

    time: str
    source: str
    what: str


class Account(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of an object: when it was made, changed and deleted, by whom and why.

    Attributes:
        owners: its owner, the owner of that and so on, each with its state.
        now: its state and the first cause; empty if it has stored none, or is gone.
        facts: all that is known, in order of time.
        unknown: what cannot be known, and where else to look.
    """

    object: str
    owners: tuple[str, ...]
    now: str
    made: str
    changed: str
    deleted: str
    facts: tuple[Fact, ...]
    unknown: tuple[str, ...]


class WhyOptions(ConnectionOptions, frozen=True):
    """The arguments of `manta why`: the object, as `KIND/NAME` or its two words."""

    target: Sequence[str]


async def explain(client: Client, namespace: str, options: WhyOptions, stream: TextIO) -> int:
    """Print what is known of the object; returns the exit status.

    Raises:
        ConfigurationError: the arguments name no object.
        KubeError: the API server could not be reached, or refused to show the object.
    """
    resource, name = parse_target(options.target, EXPLAINED, "explained")
    found = await _get(client, resource, namespace, name)
    seen = await read(client, [EVENTS], namespace)
    story = _Story(resource, namespace, name, found, seen)
    await story.find_owners(client)
    account = story.account()
    if found is None and not account.facts:
        sys.stderr.write(
            f"manta why: {account.object} does not exist in namespace {namespace}, and no event "
            "tells of it; events are kept for an hour by default. -n chooses another namespace\n"
        )
        return 1
    _write(account, CommandOutput(stream, as_json=options.output == "json"))
    return 1 if seen.missing else 0


def _write(account: Account, output: CommandOutput) -> None:
    output.document(account)
    output.line(account.object, "bold")
    for title in ("now", "made", "changed", "deleted"):
        if words := getattr(account, title):
            output.line(f"  {title}: {words}")
    for owner in account.owners:
        output.line(f"  owner: {owner}")
    output.line("")
    output.line("evidence, the oldest first", "bold")
    for line in aligned([(each.time, each.source, each.what) for each in account.facts] or [()]):
        output.line(f"  {line}")
    for each in account.unknown:
        output.line(f"not known: {each}", "yellow")


async def _get(client: Client, resource: Resource[Any], namespace: str, name: str) -> Json | None:
    try:
        return await client.get_raw(resource, namespace, name)
    except (NotFound, PathNotFound):
        return None


class _Story:
    """Gathers what is known of one object, which may be gone."""

    def __init__(
        self, resource: Resource[Any], namespace: str, name: str, found: Json | None, seen: Seen
    ) -> None:
        self._resource, self._namespace, self._name = resource, namespace, name
        self._found = found
        self._meta = mapping(mapping(found).get("metadata"))
        self._all_events = sorted(seen.events, key=lambda each: each.first)
        self._missing = seen.missing
        self._owners: list[tuple[str, str, Json | None]] = []  # its text, uid, and the object

    async def find_owners(self, client: Client) -> None:
        """Read the owner, the owner of that and so on; of a gone object, who told of it."""
        reference = _controller(self._meta)
        if self._found is None and (told := self._decisions()):
            reference = msgspec.to_builtins(told[0].regarding)
        while reference and len(self._owners) < len(KINDS):
            kind, name = str(reference.get("kind")), str(reference.get("name"))
            uid, text = str(reference.get("uid")), f"{kind.lower()}/{name}"
            resource = next((each for each in EXPLAINED if each.kind == kind), None)
            owner = None
            if resource is not None:
                try:
                    owner = await _get(client, resource, self._namespace, name)
                except Forbidden as error:
                    text = f"{text}, which may not be read ({error})"
                if owner is not None and dig(owner, "metadata", "uid") != uid:
                    owner = None
                    text = f"{text}, replaced by another one of that name"
                elif owner is None and "," not in text:
                    text = f"{text}, which is gone"
            self._owners.append((text, uid, owner))
            reference = _controller(mapping(mapping(owner).get("metadata")))

    def account(self) -> Account:
        """Return all that is known."""
        own = [*self._events(), *self._written(), *self._conditions(), *self._records()]
        return Account(
            f"{self._resource.kind.lower()}/{self._name}",
            tuple(f"{text}{_state(owner, ', ')}" for text, _, owner in self._owners),
            _state(self._found),
            self._made(),
            self._changed(),
            self._deleted(),
            tuple(sorted(own, key=lambda fact: fact.time)),
            tuple(self._unknown()),
        )

    def _decisions(self) -> list[SeenEvent]:
        """Return the events of owners that tell of this object by its name."""
        name = re.compile(rf"(?<![\w.-]){re.escape(self._name)}(?![\w-])")
        own = (self._resource.kind, self._name)
        return [
            each
            for each in self._all_events
            if (each.regarding.kind, each.regarding.name) != own and name.search(each.note)
        ]

    def _of_several(self, verb: str, moment: datetime | None) -> list[SeenEvent]:
        """Return the events of owners that tell of several objects at about that time."""
        owners = {uid for _, uid, _ in self._owners}
        return [
            each
            for each in self._all_events
            if moment is not None
            and each.regarding.uid in owners
            and verb in each.reason
            and _SEVERAL.search(each.note)
            and min(abs(each.first - moment), abs(each.last - moment)) <= _NEAR
        ]

    def _told(self, verb: str, moment: datetime | None) -> str:
        """Return the event about its creation or deletion; empty if none is left."""
        named = [each for each in self._decisions() if verb in each.reason]
        if named:
            return f"{rfc3339(named[-1].first)}, {event_text(named[-1])}"
        several = self._of_several(verb, moment)
        if moment is None or not several:
            return ""
        said = event_text(several[-1])
        return f"{rfc3339(moment)}, {said} (this one was probably among them)"

    def _made(self) -> str:
        created = time_of(self._meta.get("creationTimestamp"))
        if told := self._told("Created", created):
            return told
        if created is None:
            return "no event is left that tells of it"
        if self._owners:
            return f"{rfc3339(created)}, for {self._owners[0][0]}"
        writers = [each for each in self._writers() if each.get("subresource") != "status"]
        if not writers:
            return f"{rfc3339(created)}, nothing tells by whom"
        return f"{rfc3339(created)}, by {writers[0].get('manager')}, the first of its writers"

    def _changed(self) -> str:
        every = self._writers()
        writers = [e for e in every if _SPECIFICATION & mapping(e.get("fieldsV1")).keys()]
        if not writers:
            return "nothing tells who wrote its specification"
        return f"{writers[-1].get('time')}, {_written_by(writers[-1])}"

    def _deleted(self) -> str:
        asked = time_of(self._meta.get("deletionTimestamp"))
        if asked is None and self._found is not None:
            return "no"
        if asked is not None:
            asked -= timedelta(seconds=self._meta.get("deletionGracePeriodSeconds") or 0)
        when = f"{rfc3339(asked)}, " if asked is not None else ""
        if told := self._told("Deleted", asked):
            return told
        for each in mappings(dig(self._found, "status", "conditions")):
            if each.get("type") == "DisruptionTarget":
                return f"{when}{each.get('reason')}: {each.get('message')}"
        lost = [each for each in self._own_events() if each.reason in _LOST]
        if lost:
            return f"{rfc3339(lost[-1].first)}, {event_text(lost[-1])}"
        owner = next(iter(self._owners), None)
        if owner is not None and (
            owner[2] is None or dig(owner[2], "metadata", "deletionTimestamp")
        ):
            return f"{when}by the garbage collector, because its owner is deleted: {owner[0]}"
        return f"{when}nothing tells by whom; the audit log of the API server names the client"

    def _own_events(self) -> list[SeenEvent]:
        uid, own = self._meta.get("uid"), (self._resource.kind, self._name)
        return [
            each
            for each in self._all_events
            if (each.regarding.kind, each.regarding.name) == own
            and uid in {None, each.regarding.uid}
        ]

    def _events(self) -> Iterator[Fact]:
        moments = ("Created", self._meta.get("creationTimestamp")), (
            "Deleted", self._meta.get("deletionTimestamp"),
        )  # fmt: skip
        several = [e for verb, moment in moments for e in self._of_several(verb, time_of(moment))]
        for each in (*self._own_events(), *self._decisions(), *several):
            yield Fact(rfc3339(each.last), "event", event_text(each))

    def _writers(self) -> list[Json]:
        """Return the entries of `managedFields`, in order of time."""
        entries = mappings(self._meta.get("managedFields"))
        named = [each for each in entries if each.get("manager") != _UNTRACKED]
        return sorted(named, key=lambda each: str(each.get("time")))

    def _written(self) -> Iterator[Fact]:
        for each in self._writers():
            yield Fact(str(each.get("time")), "writer", _written_by(each))

    def _conditions(self) -> Iterator[Fact]:
        for each in mappings(dig(self._found, "status", "conditions")):
            yield Fact(str(each.get("lastTransitionTime", "")), "condition", condition_text(each))

    def _records(self) -> Iterator[Fact]:
        """Yield what a RayJob has recorded of the attempt that ran on this cluster."""
        for text, _, owner in self._owners:
            for each in mappings(dig(owner, "status", "attempts")):
                if each.get("rayClusterName") in {self._name, *self._cluster_names()}:
                    names = ("number", "result", "reason", "message")
                    said = ", ".join(f"{name} {each[name]}" for name in names if each.get(name))
                    yield Fact(
                        str(each.get("startTime", "")), "record", f"attempt of {text}: {said}"
                    )

    def _cluster_names(self) -> set[str]:
        found = (text.partition(",")[0].partition("/") for text, _, _ in self._owners)
        return {name for kind, _, name in found if kind == "raycluster"}

    def _unknown(self) -> Iterator[str]:
        yield from self._missing
        if self._found is None:
            yield "conditions and writers, which are gone with the object"
        elif not self._writers():
            yield "its writers: the API server has kept no managedFields of it"
        created = time_of(self._meta.get("creationTimestamp"))
        made_by_us = self._owners or self._found is None
        if made_by_us and not self._told("Created", created):
            yield (
                "the decision that made it: events are kept for an "
                "hour by default (--event-ttl of the API server); the log of the operator has a "
                "line `reconcile` with the writes of each moment"
            )
        yield "which person it was: a writer is a program; the audit log of the API server has both"


def _controller(meta: Json) -> Json:
    references = mappings(meta.get("ownerReferences"))
    return next((each for each in references if each.get("controller")), dict[str, Any]())


def _state(obj: Json | None, before: str = "") -> str:
    """Return whether the object is ready, with the first cause that it has stored, if any."""
    status = mapping(mapping(obj).get("status"))
    conditions = mappings(status.get("conditions"))
    if mapping(obj).get("kind") in {each.kind for each in MODEL_KINDS}:
        said = model_cause(status, conditions)
        return f"{before}{model_state(status, conditions)}{said and f': {said}'}"
    for each in conditions:
        if each.get("type") == "Ready":
            state = "ready" if each.get("status") == "True" else "not ready"
            said = each.get("message") or each.get("reason")
            return f"{before}{state}: {said}" if said else f"{before}{state}"
    return ""


def _written_by(entry: Json) -> str:
    paths = list(_paths(mapping(entry.get("fieldsV1"))))
    more = f" and {len(paths) - _MOST_FIELDS} more" if len(paths) > _MOST_FIELDS else ""
    return (
        f"{entry.get('manager')} wrote {', '.join(paths[:_MOST_FIELDS])}{more} "
        f"({entry.get('operation')})"
    )


def _paths(fields: Json, depth: int = 2) -> Iterator[str]:
    """Yield the fields of an entry of managedFields, as `spec.replicas`, two levels deep."""
    for key, below in fields.items():
        if not key.startswith("f:"):
            continue
        deeper = list(_paths(mapping(below), depth - 1)) if depth > 1 else []
        yield from (f"{key[2:]}.{each}" for each in deeper) if deeper else (key[2:],)
