"""Repairs of fields that another writer changes back, and of objects that it deletes.

Two writers that insist on different values would overwrite each other at the speed of events. So
equal repairs of a field are repeated with back-off, and from the third on the object names the
other writer. Of several objects with such repairs, one at a time is repaired, with one back-off for
all: if that lasts, the next one follows soon. Creating an object again under its name counts as a
repair of the whole object; it is repeated seldom if the garbage collector deletes the object, as
others changed its owner. Pods are exempt: each has a new name, and their planner replaces them
with its own back-off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias, cast

from msgspec.structs import replace

from controller.apimachinery.conditions import CONTESTED, ConditionSet, without_times
from controller.apimachinery.metadata import owns_field
from controller.kube.resources import PODS
from controller.runtime.plan import (
    DELETED_AGAIN,
    Create,
    Delete,
    Failure,
    JsonPatch,
    MergePatch,
    Replace,
    Target,
    Write,
    subresource_of,
)
from workqueue import Backoff

NAMED_AFTER = 3
"""Equal repairs of one field after which the other writer is named."""

FORGOTTEN_AFTER = 300.0
"""Seconds after which a repair counts no longer that was neither repeated nor held back."""

LASTS = 5.0
"""Seconds after which a repair that was not undone is taken to last."""

_BACKOFF = Backoff(base=1.0, cap=60.0)

_BACKOFF_OF_DISOWNED = Backoff(base=60.0, cap=240.0)
"""Of objects that the garbage collector deletes because others changed their owner. That is no race
which a quick repair could win, and a cluster has started pods by then."""

_CHANGES_OWNERS: Final = "another client or a webhook"

Path: TypeAlias = tuple[str, ...]
"""The names that lead to a field: `("spec", "type")`."""

WHOLE: Final[Path] = ()
"""The path of an object that is repaired as a whole."""

_STATUS: Final[Path] = ("status",)


@dataclass(slots=True)
class Repair:
    """The last repair of one field.

    Attributes:
        target: the object, without the scope of the write.
        count: number of consecutive equal repairs; 0 for an object that was created once.
        at: clock time of the last one, in seconds.
        needed_at: clock time at which it was made, or last held back, in seconds.
        writer: who changes it back; empty until it is named.
        undone: whether it is to be repeated.
        disowned: whether others gave the created object another owner.
    """

    target: Target
    path: Path
    value: Any
    count: int
    at: float
    needed_at: float
    writer: str = ""
    undone: bool = False
    disowned: bool = False

    @property
    def delay(self) -> float:
        """Seconds until it may be repeated."""
        backoff = _BACKOFF_OF_DISOWNED if self.disowned else _BACKOFF
        return backoff.delay(self.count - 1)

    def is_forgotten(self, now: float) -> bool:
        """Return whether it counts no longer."""
        return now - self.needed_at >= FORGOTTEN_AFTER

    def __str__(self) -> str:
        """Return the sentence of the condition."""
        what = f"{self.target.resource.kind} {self.target.name}"
        if self.disowned:
            return (
                f"{self.writer} changes the owner reference of {what}, so that the garbage "
                "collector deletes it; it is created at most once in four minutes: exempt it from "
                "that webhook, or stop that client"
            )
        if self.path == WHOLE:
            return (
                f"{self.writer} keeps deleting {what}, "
                "which is created at most once a minute: find the other writer in the audit log of "
                "the API server, and configure or stop it"
            )
        where = f"{'.'.join(self.path)} of {what}"
        return (
            f"{self.writer} keeps changing {where}; it is repaired at most once a minute: "
            "configure or stop one of the two writers"
        )


@dataclass(slots=True)
class Repairs:
    """The repairs on behalf of one owner."""

    _known: dict[tuple[Target, Path], Repair] = field(
        default_factory=dict[tuple["Target", Path], Repair]
    )

    def plan(self, write: Write, now: float, *, disowned: bool = False) -> None:
        """Record that this write is planned: what it repeats was undone.

        `disowned` says that others gave the object that it created last another owner.
        """
        if not self._known:
            return
        for each in _fields_of(write):
            last = self._last(write.target, *each, now)
            if last is not None:
                last.undone = True
                if disowned:
                    last.disowned, last.writer = True, _CHANGES_OWNERS
                    last.count = max(last.count, 1)

    def wait(self, write: Write, now: float) -> float:
        """Return the seconds until this write may be sent: its fields and its turn are due."""
        if not self._known:
            return 0.0
        self.plan(write, now)
        known = [(self._last(write.target, *each, now), each) for each in _fields_of(write)]
        wait = min((self._wait(write.target, *each, now) for _, each in known), default=0.0)
        if any(last is not None and last.writer for last, _ in known):
            wait = max(wait, self._wait_for_turn(write.target, now))
        if wait > 0:
            for last, _ in known:
                if last is not None:
                    last.needed_at = now
        return wait

    def unnamed(self, write: Write, now: float) -> list[Repair]:
        """Return the repairs that this write repeats and whose other writer is to be named now.

        For the status no writer is named: the other writer would overwrite that report.
        """
        if not self._known or subresource_of(write) == "status":
            return []
        repeated = [self._last(write.target, *each, now) for each in _fields_of(write)]
        return [
            each
            for each in repeated
            if each is not None and each.count + 1 >= NAMED_AFTER and not each.writer
        ]

    def record(self, write: Write, now: float) -> None:
        """Record that this write was carried out."""
        if isinstance(write, Delete):
            self._known.pop(_key(write.target, WHOLE), None)  # nobody else deletes it
        lasts = [(each, self._last(write.target, *each, now)) for each in _fields_of(write)]
        common = 0
        if any(last is not None and last.writer for _, last in lasts):
            common = max(each.count for each in self._known.values() if each.writer)
        for (path, value), last in lasts:
            first = 0 if path == WHOLE else 1
            count = last.count + 1 if last is not None else first
            writer = last.writer if last is not None else ""
            if writer:
                count = max(count, common + 1)
            key = _key(write.target, path)
            repair = Repair(key[0], path, value, count, now, now, writer)
            repair.disowned = last is not None and last.disowned
            self._known[key] = repair

    def undone(self, write: Write) -> Failure | None:
        """Return the report about a create that a named writer keeps undoing."""
        repair = self._known.get(_key(write.target, WHOLE)) if isinstance(write, Create) else None
        if repair is None or not repair.writer:
            return None
        return Failure(write, DELETED_AGAIN, str(repair))

    def contested(self, now: float) -> list[Repair]:
        """Return the repairs whose other writer is named; forget those needed long ago."""
        self._known = {
            key: repair for key, repair in self._known.items() if not repair.is_forgotten(now)
        }
        return [repair for repair in self._known.values() if repair.writer]

    def _wait(self, target: Target, path: Path, value: Any, now: float) -> float:
        last = self._last(target, path, value, now)
        if last is None or not last.count:
            return 0.0
        return last.at + last.delay - now

    def _wait_for_turn(self, target: Target, now: float) -> float:
        """Return the seconds until the turn of an object whose repairs another writer undoes."""
        latest: dict[Target, Repair] = {}
        for repair in sorted(self.contested(now), key=lambda each: each.at):
            latest[repair.target] = repair
        order = sorted(latest, key=lambda each: latest[each].at)
        if len(order) < 2:
            return 0.0
        last, place = latest[order[-1]], order.index(replace(target, scope=""))
        turns = LASTS * (len(order) - 1)  # of all others, which come in the same back-off
        rest = last.delay - min(turns, last.delay / 2)
        return last.at + (max(rest, LASTS) if last.undone else LASTS) + LASTS * place - now

    def _last(self, target: Target, path: Path, value: Any, now: float) -> Repair | None:
        last = self._known.get(_key(target, path))
        equal = last is not None and last.value == value and not last.is_forgotten(now)
        return last if equal else None


def _key(target: Target, path: Path) -> tuple[Target, Path]:
    """Return the key of a repair, which does not depend on the scope of the write."""
    return replace(target, scope=""), path


def _fields_of(write: Write) -> list[tuple[Path, Any]]:
    """Return the fields that a write changes, with the wanted values.

    The status counts as one field, and so does a created object, whatever its content.
    """
    match write:
        case Create() if write.target.resource is not PODS:
            return [(WHOLE, None)]
        case MergePatch(subresource=""):
            return list(_leaves((), write.patch))
        case MergePatch(subresource="status"):
            return [(_STATUS, without_times(write.patch.get("status")))]
        case Replace():
            return list(_leaves((), write.merge))
        case JsonPatch(subresource=""):
            changes = [each for each in write.operations if each["op"] != "test"]
            return [(tuple(each["path"].split("/")[1:]), each.get("value")) for each in changes]
        case _:
            return []


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for name, inner in cast("Mapping[str, Any]", value).items():
        yield from _leaves((*path, name), inner)


# The condition that names fields over which the operator and another writer disagree.
#
# It is the same for every kind, and present only while there is such a field.

CONTESTED_REASON: Final = "FieldContested"
"""Reason of its event."""

CONTESTED_FIELDS: Final = (
    f"another writer keeps undoing what is written to {{count}} objects; the condition {CONTESTED} "
    "names the first: configure or stop one of the two writers"
)
"""Note of the event about many objects."""

_MOST_SENTENCES: Final = 8


def sentences_of(repairs: Iterable[Repair]) -> str:
    """Return what is said of the first of these, in an order that does not depend on theirs."""
    sentences = sorted(map(str, repairs))
    more = len(sentences) - _MOST_SENTENCES
    rest = [f"and so with {more} more"] if more > 0 else []
    return "; ".join([*sentences[:_MOST_SENTENCES], *rest])


def with_contested(
    wanted: Mapping[str, Any], contested: Sequence[Repair], generation: int, now: datetime
) -> Mapping[str, Any]:
    """Return the wanted status with the condition, unless it has no conditions."""
    if "conditions" not in wanted:
        return wanted
    conditions = ConditionSet(wanted["conditions"], generation, now)
    conditions.set_if(CONTESTED, "True", "AnotherWriter", sentences_of(contested))
    return {**wanted, "conditions": conditions.as_list()}


# Finds the other writer of a field in `metadata.managedFields`, as the server returns it.

SOMEBODY: Final = "another writer"
"""The words for a writer whose name is unknown."""

_UNTRACKED: Final = "before-first-apply"
"""Manager of fields that were written before the server tracked managers."""


def other_writer(obj: Mapping[str, Any], path: Path, *, own: str) -> str:
    """Return the words for the manager other than `own` that last wrote the field.

    A removed field has no manager; then it may be any of the others.
    """
    metadata: Mapping[str, Any] = obj.get("metadata") or {}
    entries: list[dict[str, Any]] = metadata.get("managedFields") or []
    others = [
        each
        for each in entries
        if each.get("manager") not in {own, _UNTRACKED} and each.get("subresource") != "status"
    ]
    others.sort(key=lambda each: str(each.get("time", "")), reverse=True)
    for each in others:
        if owns_field(each.get("fieldsV1"), path):
            return f"{SOMEBODY} ({each['manager']})"
    names = dict.fromkeys(str(each.get("manager")) for each in others)
    return f"{SOMEBODY} (perhaps {' or '.join(names)})" if names else SOMEBODY
