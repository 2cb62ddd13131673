"""A Workspace, its claims, and an operator whose cache is never late: values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

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


@dataclass
class World:
    """The API server, and one operator.

    Attributes:
        stored: the set, as the Workspace has it in its annotation.
        absent: names of claims that a look-up has not found.
        memory: what the last decision remembered.
        most: claims that there were at a time.
    """

    target: int
    template: str = "a"
    settings: ClaimSettings = field(default_factory=ClaimSettings)
    now: datetime = START
    claims: dict[str, ObservedClaim] = field(default_factory=dict)
    stored: str | None = None
    absent: set[str] = field(default_factory=set)
    memory: Mapping[str, Slot] = field(default_factory=dict)
    most: int = 0
    restarts: int = 0

    def reconcile(self) -> ClaimDecision:
        facts = ClaimFacts(
            uid=UID,
            target=self.target,
            template=self.template,
            commitment=read_commitment(self.stored),
            claims=dict(self.claims),
            absent=frozenset(self.absent),
            process=f"p{self.restarts}",
            remembered=self.memory,
        )
        decision = decide_claims(replace(facts, settings=self.settings), self.now)
        if decision.confirm:
            self.absent |= {name for name in decision.confirm if name not in self.claims}
            return decision
        self.memory = decision.shown
        if decision.is_due:
            self.stored = write_commitment(decision.commitment)
        for name in decision.create:
            self.claims[name] = ObservedClaim(name, f"uid-{name}", ClaimState.PENDING, self.now)
            self.absent.discard(name)
        for claim in decision.delete:
            self.set_state(claim.name, ClaimState.TERMINATING)
        self.most = max(self.most, len(self.claims))
        return decision

    def settle(self) -> ClaimDecision:
        """Reconcile until nothing changes."""
        for _ in range(100):
            before = dict(self.claims), self.stored
            decision = self.reconcile()
            if (self.claims, self.stored) == before and not decision.confirm:
                return decision
        raise AssertionError("there is no rest")

    def set_state(self, name: str, state: ClaimState, reason: str = "") -> None:
        ready = self.now if state is ClaimState.READY else None
        self.claims[name] = replace(
            self.claims[name], state=state, ready_since=ready, reason=reason, message=reason
        )

    def remove(self, name: str) -> None:
        del self.claims[name]

    def restart(self) -> None:
        """Another process: it knows nothing."""
        self.restarts += 1
        self.absent, self.memory = set(), {}

    def commitment(self) -> Commitment:
        found = read_commitment(self.stored)
        assert found is not None
        return found

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
