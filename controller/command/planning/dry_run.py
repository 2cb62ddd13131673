"""Asks the API server what it would do with the writes of a plan, and what it refuses."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from controller.apimachinery.patches import apply_merge_patch, difference
from controller.command.planning.snapshot import Snapshot, group_of, name_pattern
from controller.command.planning.upgrades import RollingRecorder, RolloutRecorder
from controller.kube.client import Client
from controller.kube.errors import Forbidden, StatusError
from controller.kube.resources import PODS
from controller.kube.transport import JSON, JSON_PATCH, MERGE_PATCH, ContentType
from controller.runtime.kind import Kind
from controller.runtime.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    JsonPatch,
    MergePatch,
    Plan,
    Replace,
    Target,
    Write,
)

# Reconciles objects of a snapshot until nothing is left to do, and records what that takes.
#
# The recorded writes are those that the operator would make, in its order, if every one of them
# succeeded and deleted objects were gone at once. Nothing leaves the process: the dry run of the
# API server follows below.

Json = dict[str, Any]

MOST_ROUNDS: Final = 1000
"""More plans than any object needs, unless its pods are replaced one after the other."""

_ROUNDS_A_POD: Final = 4
"""More plans than the replacement of one pod needs."""


class NeverSettlesError(RuntimeError):
    """Plans for an object keep writing: a bug of its kind."""


class DryRun:
    """Executes plans on a snapshot, which changes; the recorder gets every write as it is executed.

    No commands reach a kind's external system, and nothing is known from there.

    Attributes:
        before: all objects as they were at the start, by resource and key.
        writes: all writes but those of status, in order.
        events: what the plans would report.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        now: datetime,
        recorder: RollingRecorder | RolloutRecorder | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.before = snapshot.contents()
        self.writes: list[Write] = []
        self.events: list[Event] = []
        self._begin = self._now = now
        self._recorder = recorder
        self._requeue_after: float | None = None
        self._idle: dict[tuple[str, str], tuple[int, datetime, Plan]] = {}

    def reconcile(self, kind: Kind[Any], key: str) -> bool:
        """Execute plans for one object until one has no writes; returns whether any had.

        A plan without writes is not made again before anything has changed.

        Raises:
            NeverSettlesError: there was still something to write after `MOST_ROUNDS` plans.
        """
        for done in range(MOST_ROUNDS):
            plan = self._plan(kind, key)
            self._requeue_after = plan.requeue_after
            if not self._execute(plan, kind, key):
                self._idle[kind.primary.kind, key] = self.snapshot.changes, self._now, plan
                return done > 0
        raise NeverSettlesError(f"{kind.primary.kind} {key} still changes at plan {MOST_ROUNDS}")

    def _plan(self, kind: Kind[Any], key: str) -> Plan:
        changes, time, plan = self._idle.get((kind.primary.kind, key), (-1, self._now, NOTHING))
        if (changes, time) == (self.snapshot.changes, self._now):
            return plan
        seen = kind.observe(key, self.snapshot)
        return NOTHING if seen is None else kind.plan(seen, self._now)

    def reconcile_with_created(
        self, kinds: Sequence[Kind[Any]], key: str, *, patience: timedelta = timedelta(0)
    ) -> None:
        """Reconcile an object of the first kind and what is created or changed for it.

        Whenever all of that has settled, the pods created so far become ready. The object waits for
        what its own plans want to do later, as long as `patience`.

        Raises:
            NeverSettlesError: one object or all together do not settle.
        """
        for _ in range(MOST_ROUNDS + _ROUNDS_A_POD * len(self.before.get(PODS, ()))):
            primary = kinds[0], key
            objects = [*(each for each in self._touched(kinds) if each != primary), primary]
            changed = [self.reconcile(kind, each) for kind, each in objects]
            if any(changed):
                continue
            if self.snapshot.run_pods():
                if self._recorder is not None:
                    self._recorder.settled()
                continue
            later = self._now + timedelta(seconds=self._requeue_after or 0)
            if not self._requeue_after or later - self._begin > patience:
                return
            self._now = later
        raise NeverSettlesError(f"what is created for {kinds[0].primary.kind} {key} never settles")

    def _touched(self, kinds: Sequence[Kind[Any]]) -> Iterator[tuple[Kind[Any], str]]:
        """Yield the objects of these kinds that are not as they were at the start."""
        now = self.snapshot.contents()
        for kind in kinds:
            for key, obj in now[kind.primary].items():
                if self.before[kind.primary].get(key) is not obj:
                    yield kind, key

    def _execute(self, plan: Plan, kind: Kind[Any], key: str) -> bool:
        """Execute one plan; returns whether anything changed."""
        for lookup in plan.lookups:
            self.snapshot.look_up(lookup)
        if plan.lookups:
            return True
        self.events += plan.events
        writes = list(_writes(plan))
        self.writes += writes
        for write in writes:
            removed = self.snapshot.execute(write)
            if self._recorder is not None:
                seconds = (self._now - self._begin).total_seconds()
                self._recorder.record(seconds, write, removed)
        return self._write_status(plan, kind, key) or bool(writes)

    def _write_status(self, plan: Plan, kind: Kind[Any], key: str) -> bool:
        present = self.snapshot.raw(kind.primary, key)
        if plan.status is None or present is None:
            return False
        patch = difference(present.get("status"), plan.status.wanted)
        if patch:
            namespace, _, name = key.rpartition("/")
            target = Target(kind.primary, namespace, name)
            self.snapshot.execute(MergePatch(target, "", {"status": patch}, subresource="status"))
        return bool(patch)


def _writes(plan: Plan) -> Iterator[Write]:
    if plan.commit is not None:
        yield plan.commit
    for stage in plan.stages:
        yield from stage
    yield from plan.independent


# The kinds that take part in the dry run of an object, found by following `Kind.creates`.


def with_created_kinds(kind: Kind[Any], served: Iterable[Kind[Any]]) -> tuple[Kind[Any], ...]:
    """Return the kind, then the served kinds of all objects created for its objects, nearest first.

    A kind may create objects of several kinds, and several kinds may create objects of one.
    """
    by_primary = {each.primary: each for each in served}
    found = {kind.primary: kind}
    queue = [kind]
    for creator in queue:  # grows on the way
        for resource in creator.creates:
            created = by_primary.get(resource)
            if created is not None and resource not in found:
                found[resource] = created
                queue.append(created)
    return tuple(queue)


# Asks the API server about the planned writes: each is sent to it as a dry run.
#
# Defaults, validation, quotas, limits and admission webhooks of the server all take part. A dry run
# does not see the writes before it, so an object that an earlier write creates does not count as
# missing.

_OWN_RIGHTS_MISSING = re.compile(r'User "[^"]*" cannot (\S+) resource "([^"]+)"')
_NO_DRY_RUN = "does not support dry run"
_OPERATOR = {"dryRun": "All", "fieldManager": "manta"}


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A planned write that the API server would refuse, in its words, or several alike.

    Names have `*` for what differs between the pods of one group.
    """

    kind: str
    name: str
    message: str
    group: str = ""
    count: int = 1


class ServerAnswers(msgspec.Struct, frozen=True):
    """What the API server would refuse of all planned writes, and what could not be asked."""

    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


async def ask_server(client: Client, dry_run: DryRun, new: Target | None) -> ServerAnswers:
    """Send all writes of a settled dry run to the API server, which stores none of them.

    It cannot judge changes of the primary object if that is new.

    Raises:
        KubeError: the server could not be reached.
    """
    writes = [
        write
        for write in _askable(dry_run)
        if new is None or (write.target.resource, write.target.key) != (new.resource, new.key)
    ]
    answers = await asyncio.gather(*(_refusal_of(client, write) for write in writes))
    created = {write.target.name for write in writes if isinstance(write, Create)}
    refused: Counter[Refusal] = Counter()
    notes: dict[str, None] = {}
    for write, error in zip(writes, answers, strict=True):
        if error is None or _waits_for_another(error, created):
            continue
        if note := _unanswered(write, error):
            notes[note] = None
        else:
            refused[_refusal(write, error)] += 1
    return ServerAnswers(
        tuple(msgspec.structs.replace(each, count=count) for each, count in refused.items()),
        tuple(notes),
    )


def _askable(dry_run: DryRun) -> Iterable[Write]:
    """Yield creations, and changes and deletions of existing objects."""
    existing = {
        (str(resource), key) for resource, objects in dry_run.before.items() for key in objects
    }
    for write in dry_run.writes:
        if isinstance(write, Create) or (str(write.target.resource), write.target.key) in existing:
            yield write


async def _refusal_of(client: Client, write: Write) -> StatusError | None:
    method, body, content_type = _request(write)
    target = write.target
    name = "" if isinstance(write, Create) else target.name
    try:
        await client.request_json(
            method,
            target.resource.path(target.namespace, name, getattr(write, "subresource", "")),
            query=_OPERATOR,
            body=body,
            content_type=content_type,
        )
    except StatusError as error:
        return error
    return None


def _request(write: Write) -> tuple[str, Any, ContentType]:
    match write:
        case Create():
            secret = write.secret if write.reads is None else None
            body = write.body if secret is None else apply_merge_patch(write.body, secret())
            return "POST", body, JSON
        case Delete():
            options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
            return "DELETE", options, JSON
        case MergePatch():
            return "PATCH", write.patch, MERGE_PATCH
        case Replace():
            return "PATCH", write.merge, MERGE_PATCH
        case JsonPatch():
            return "PATCH", list(write.operations), JSON_PATCH


def _waits_for_another(error: StatusError, created: set[str]) -> bool:
    """Return whether the server misses what another write creates, such as a service account."""
    text = str(error)
    return "not found" in text and any(f'"{name}"' in text for name in created)


def _unanswered(write: Write, error: StatusError) -> str:
    """Return the reason why this says nothing about the operator's write; empty if it does."""
    own = _OWN_RIGHTS_MISSING.search(str(error)) if isinstance(error, Forbidden) else None
    unknown = f"whether the API server would accept each {write.target.resource.kind} is not known"
    if own:
        return f"{unknown}: your account may not {own[1]} {own[2]}"
    if _NO_DRY_RUN in str(error):
        return f"{unknown}: {error}"
    return ""


def _refusal(write: Write, error: StatusError) -> Refusal:
    group = ""
    if isinstance(write, Create) and write.target.resource == PODS:
        group = group_of({"metadata": {}, **write.body})
    name = write.target.name
    pattern = name_pattern(name) if group else name
    return Refusal(
        kind=write.target.resource.kind,
        name=pattern,
        message=str(error).replace(name, pattern),
        group=group,
    )
