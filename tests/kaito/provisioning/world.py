"""A Workspace, its claims, and an operator with a late cache: values, and random choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from msgspec.structs import replace

from controller.kaito.api.options import ClaimSettings
from controller.kaito.provisioning.claims import (
    ClaimFacts,
    ClaimState,
    Commitment,
    ObservedClaim,
    Slot,
    read_commitment,
    write_commitment,
)
from controller.kaito.provisioning.decision import ClaimDecision, decide_claims

START = datetime(2026, 1, 1, tzinfo=UTC)
UID = "workspace-uid"
Claims = dict[str, ObservedClaim]


@dataclass
class World:
    """The API server, and one operator.

    Attributes:
        created: names for which the server created a claim, in order.
        deleted: names of claims that the operator deleted.
        known: names of claims of which the operator knows that they have existed.
        memory: what the last decision remembered.
        writes: how often the set was stored.
        born: positions in the history at which claims were created, by name.
        reborn: names that were created again although the operator knew that they had existed.
        history: what claims and commitment were after each change; caches show one of these.
        shown: position in the history that the cache shows.
    """

    random: Random
    target: int
    template: str = "a"
    settings: ClaimSettings = field(default_factory=ClaimSettings)
    now: datetime = START
    claims: Claims = field(default_factory=dict)
    stored: str | None = None
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    born: dict[str, int] = field(default_factory=dict)
    reborn: list[str] = field(default_factory=list)
    most: int = 0
    history: list[tuple[Claims, str | None]] = field(default_factory=lambda: [({}, None)])
    shown: int = 0
    own: Claims = field(default_factory=dict)
    own_stored: str | None = None
    pending: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    restarts: int = 0
    writes: int = 0
    memory: Mapping[str, Slot] = field(default_factory=dict)

    # what the operator sees and does

    def facts(self) -> ClaimFacts:
        claims, stored = self.history[self.shown]
        stored = self.own_stored or stored
        return ClaimFacts(
            uid=UID,
            target=self.target,
            template=self.template,
            commitment=read_commitment(stored),
            claims={**self.own, **claims},
            pending=frozenset(self.pending),
            absent=frozenset(self.absent),
            process=f"p{self.restarts}",
            remembered=self.memory,
        )

    def reconcile(self) -> ClaimDecision:
        facts = self.facts()
        decision = decide_claims(replace(facts, settings=self.settings), self.now)
        if decision.confirm:
            self.absent |= {name for name in decision.confirm if name not in self.claims}
            self.show_latest_of(decision.confirm)
            return decision
        self.memory = decision.shown
        self.known |= {slot.name for slot in decision.shown.values() if slot.seen}
        is_due = decision.is_due and decision.commitment != facts.commitment
        if is_due and not self._commit(facts, decision):
            return decision
        for name in decision.create:
            self._create(name)
        for claim in decision.delete:
            self._delete(claim.name)
        return decision

    def _commit(self, facts: ClaimFacts, decision: ClaimDecision) -> bool:
        """Store the set; a conflict if the operator has seen an older one."""
        present = write_commitment(facts.commitment) if facts.commitment else None
        if present != self.stored:
            self.own_stored = self.stored
            return False
        self.stored = write_commitment(decision.commitment)
        self.writes += 1
        self.own_stored = self.stored
        self._changed()
        return True

    def _create(self, name: str) -> None:
        answer = self.random.choice(["answered", "answered", "lost", "never arrived"])
        if answer != "never arrived" and name not in self.claims:
            uid = f"uid-{len(self.created)}"
            self.claims[name] = ObservedClaim(name, uid, ClaimState.PENDING, self.now)
            self.created.append(name)
            self.reborn += [name] if name in self.known else []
            self._changed()
            self.born[name] = len(self.history) - 1
        if answer == "answered":
            self.absent.discard(name)
            self.own[name] = self.claims[name]
        else:
            self.pending.add(name)

    def _delete(self, name: str) -> None:
        claim = self.claims.get(name)
        if claim is not None and claim.state is not ClaimState.TERMINATING:
            self.deleted.append(name)
            self.set_state(name, ClaimState.TERMINATING)
        if name in self.own and claim is not None:
            self.own[name] = self.claims[name]

    # what else happens

    def set_state(self, name: str, state: ClaimState, reason: str = "") -> None:
        ready = self.now if state is ClaimState.READY else None
        self.claims[name] = replace(
            self.claims[name], state=state, ready_since=ready, reason=reason, message=reason
        )
        self._changed()

    def remove(self, name: str) -> None:
        del self.claims[name]
        self._changed()

    def deliver(self) -> None:
        """Events arrive: the cache moves on, and own records that it shows are dropped."""
        self.shown = self.random.randint(self.shown, len(self.history) - 1)
        self._drop_shown()

    def deliver_all(self) -> None:
        self.shown = len(self.history) - 1
        self._drop_shown()

    def resolve(self) -> None:
        """The outcome of a lost write is looked up."""
        for name in sorted(self.pending):
            self.pending.discard(name)
            if name in self.claims:
                self.absent.discard(name)
                self.own[name] = self.claims[name]

    def show_latest_of(self, names: tuple[str, ...]) -> None:
        """A look-up that finds a claim shows it."""
        self.own |= {name: self.claims[name] for name in names if name in self.claims}

    def restart(self) -> None:
        """Another process: it knows nothing, and its first list may be of any age."""
        self.restarts += 1
        self.own, self.own_stored = {}, None
        self.pending, self.absent = set(), set()
        stored = read_commitment(self.stored)
        slots = stored.slots if stored is not None else ()
        self.memory, self.known = {}, {slot.name for slot in slots if slot.seen}
        self.shown = self.random.randrange(len(self.history))

    def settle(self) -> ClaimDecision:
        """Reconcile until nothing changes."""
        for _ in range(100):
            self.deliver_all()
            self.resolve()
            before = len(self.history)
            decision = self.reconcile()
            if len(self.history) == before and not self.pending and not decision.confirm:
                return decision
        raise AssertionError("there is no rest")

    def commitment(self) -> Commitment:
        found = read_commitment(self.stored)
        assert found is not None
        return found

    def _changed(self) -> None:
        self.most = max(self.most, len(self.claims))
        self.history.append((dict(self.claims), self.stored))

    def _drop_shown(self) -> None:
        if self.history[self.shown][1] == self.stored:
            self.own_stored = None
        for name in list(self.own):
            if self.born[name] <= self.shown:
                del self.own[name]

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
