"""The committed set of claims of a Workspace: stored before any of them is created or deleted.

It is an annotation, so that it survives the operator and fits Kaito's definitions too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from controller.apimachinery.conditions import parse_rfc3339, rfc3339
from controller.kaito.provisioning.nodes import claim_name

if TYPE_CHECKING:
    from collections.abc import Container


MOST_NODES: Final = 256
"""Maximum nodes of a Workspace: a set of this size always fits into an annotation."""

_MOST_SLOTS: Final = 4 * MOST_NODES
"""Maximum claims of a set: Kaito may have created more than are needed."""

_ANY_TIME: Final = parse_rfc3339("2000-01-01T00:00:00Z")


class _Stored(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    kw_only=True,
    omit_defaults=True,
):
    """Part of the annotation: defaults are left out."""


class Slot(_Stored, frozen=True):
    """One claim of the set, and those that it replaces.

    Attributes:
        place: among the claims of the Workspace; never changes.
        name: name of the claim.
        attempt: number of claims that had this place before, in this generation.
        begun_by: the process that creates the claim. Another process stores itself here first, so
            that one that has read an old set gets a conflict before it creates anything.
        seen: whether the claim has existed.
        ready_since: when it became ready, RFC 3339; empty if it never was.
        failures: claims in a row that were not ready for long.
        retry_at: time before which the claim is not created, RFC 3339; empty if it may be.
        reason: why the last one failed; empty once the present one is ready.
        message: the same in words.
    """

    place: int
    name: str
    attempt: int = 0
    begun_by: str = ""
    seen: bool = False
    ready_since: str = ""
    failures: int = 0
    retry_at: str = ""
    reason: str = ""
    message: str = ""

    def may_be_created(self, now: datetime) -> bool:
        """Return whether the back-off is over."""
        return not self.retry_at or parse_rfc3339(self.retry_at) <= now

    def failures_when(self, lost: datetime, long: timedelta) -> int:
        """Return the consecutive failures if the claim is lost then; 1 if it was ready for long."""
        lasted = bool(self.ready_since) and parse_rfc3339(self.ready_since) + long <= lost
        return 1 if lasted else self.failures + 1

    def delayed(self, until: datetime) -> Slot:
        """Return the slot, with a claim that may not be created before that time."""
        return msgspec.structs.replace(self, retry_at=rfc3339(until))


class Commitment(_Stored, frozen=True):
    """The set.

    Attributes:
        target: number of nodes that the workload needs.
        template: what the claims are made from; another one leads to another set.
        slots: the claims, by place.
        own_nodes: names of nodes that were there before, and need no claim.
        discarded: names of earlier claims that must go.
        generation: how often the whole set was replaced.
        complete: whether all nodes were ready at once.
        given_back: number of consecutive times that a part of the set was given back.
    """

    target: int
    template: str = ""
    slots: tuple[Slot, ...] = ()
    own_nodes: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()
    generation: int = 0
    complete: bool = False
    given_back: int = 0

    @property
    def names(self) -> frozenset[str]:
        """The names of all claims: those of the set, and those that must go."""
        return frozenset({*self.discarded, *(slot.name for slot in self.slots)})

    def with_slots(self, uid: str, count: int) -> Commitment:
        """Return the set with `count` more claims, in the lowest free places."""
        slots = list(self.slots)
        for _ in range(count):
            places = {slot.place for slot in slots}
            names = {*self.discarded, *(slot.name for slot in slots)}
            place = next(each for each in range(len(slots) + 1) if each not in places)
            slots.append(_new_slot(uid, place, self.generation, names))
        slots.sort(key=lambda slot: slot.place)
        return msgspec.structs.replace(self, slots=tuple(slots))

    def replaced(self, uid: str) -> Commitment:
        """Return a set of as many claims under new names; the present ones are discarded."""
        names = tuple(slot.name for slot in self.slots)
        empty = msgspec.structs.replace(
            self,
            slots=(),
            generation=self.generation + 1,
            discarded=tuple(sorted({*self.discarded, *names})),
            complete=False,
        )
        return empty.with_slots(uid, len(self.slots))


def _new_slot(uid: str, place: int, generation: int, taken: Container[str]) -> Slot:
    """Return a claim whose name is not taken: claims that were adopted may have any name."""
    attempt = 0
    while (name := claim_name(uid, place, generation, attempt)) in taken:
        attempt += 1
    return Slot(place=place, name=name, attempt=attempt)


def read_commitment(text: str | None) -> Commitment | None:
    """Return the set in an annotation; None if there is none or it is implausible."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=Commitment)
        for slot in found.slots:
            slot.may_be_created(_ANY_TIME)
            slot.failures_when(_ANY_TIME, timedelta())
    except (msgspec.DecodeError, ValueError):
        return None
    is_possible = 0 < found.target <= MOST_NODES and len(found.slots) <= _MOST_SLOTS
    return found if is_possible else None


def write_commitment(commitment: Commitment) -> str:
    """Return the text of the annotation."""
    return msgspec.json.encode(commitment).decode()
