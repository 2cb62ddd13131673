"""A Workspace, its NodePool, and an operator with a late cache: values, and random choices."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import msgspec
from msgspec.structs import replace

from controller.kaito.api.status import Cause
from controller.kaito.provisioning.claims import ClaimState, ObservedClaim, write_commitment
from controller.kaito.provisioning.pool_decision import (
    ObservedNodeClass,
    PoolDecision,
    PoolFacts,
    decide_pool,
)
from controller.kaito.provisioning.pools import ObservedPool, PoolCommitment, read_pool_commitment

NAME, MACHINE = "default-phi", "Standard_NX"


class Stored(msgspec.Struct, frozen=True):
    """What the API server holds at one moment.

    Attributes:
        pool: the NodePool, None if there is none.
        claims: of the pool, by name.
        nodes: names of nodes that were there before, and whether they are ready.
        has_class: whether the NodeClass is ready.
        commitment: the annotation of the Workspace.
    """

    pool: ObservedPool | None = None
    claims: dict[str, ObservedClaim] = msgspec.field(default_factory=dict)
    nodes: dict[str, bool] = msgspec.field(default_factory=dict)
    has_class: bool = False
    commitment: str | None = None


@dataclass
class PoolWorld:
    """The API server, Karpenter, and one operator.

    Attributes:
        now: what the API server holds; `history` is what it has held, of which caches show one.
        shown: position in the history that the cache shows.
        created: uids of the pools that were created, in order.
        deleted: uids of those that the operator has deleted.
        sizes: numbers of nodes that pools had, in order.
    """

    random: Random
    target: int
    now: Stored = field(default_factory=Stored)
    template: str = MACHINE
    history: list[Stored] = field(default_factory=list)
    shown: int = 0
    own: Stored | None = None
    is_pending: bool = False
    absent: set[str] = field(default_factory=set)
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        self.history.append(self.now)

    # what the operator sees and does

    def facts(self) -> PoolFacts:
        shown = self.history[self.shown]
        seen = self.own or shown  # never older than what this process has done itself
        problem = None if shown.has_class else Cause("NodeClassNotReady", "not yet")
        return PoolFacts(
            name=NAME,
            target=self.target,
            instance_type=MACHINE,
            template=self.template,
            commitment=read_pool_commitment(seen.commitment),
            found=seen.pool,
            is_pending=self.is_pending,
            claims=shown.claims,
            node_class=ObservedNodeClass("c", problem),
            ready_nodes=frozenset(name for name, ready in shown.nodes.items() if ready),
            existing_nodes=frozenset(shown.nodes),
            absent=frozenset(self.absent),
        )

    def reconcile(self) -> PoolDecision:
        facts = self.facts()
        decision = decide_pool(facts)
        if decision.confirm_nodes:
            self.absent |= set(decision.confirm_nodes) - self.now.nodes.keys()
            self.shown = len(self.history) - 1  # what a look-up finds is shown
            return decision
        if decision.is_due and decision.commitment != facts.commitment:
            text = write_commitment(facts.commitment) if facts.commitment else None
            if text != self.now.commitment:
                self._see()  # a conflict: another process has written since
                return decision
            self._change(commitment=write_commitment(decision.commitment))
            self._see()
        if decision.create:
            self._write(lambda: self._create(decision.commitment.replicas))
        if decision.grow and facts.found is not None:
            pool, replicas = facts.found, decision.commitment.replicas
            self._write(lambda: self._grow(pool, replicas))
        if decision.delete and facts.found is not None:
            pool = facts.found
            self._write(lambda: self._delete(pool))
        return decision

    def _write(self, carry_out: object) -> None:
        """Send a write, whose answer may be lost, or which may never arrive."""
        assert callable(carry_out)
        answer = self.random.choice(["answered", "answered", "lost", "never arrived"])
        if answer != "never arrived":
            carry_out()
        if answer == "answered":
            self._see()
        else:
            self.is_pending = True

    def _create(self, replicas: int) -> None:
        if self.now.pool is not None:
            return
        self.created.append(f"p-{len(self.created)}")
        pool = ObservedPool(NAME, self.created[-1], replicas=replicas, template=self.template)
        self._change(pool=replace(pool, resource_version=str(len(self.history))))
        self.sizes.append(replicas)

    def _grow(self, seen: ObservedPool, replicas: int) -> None:
        pool = self.now.pool
        if pool is None or pool.resource_version != seen.resource_version:
            return
        version = str(len(self.history))
        self._change(pool=replace(pool, replicas=replicas, resource_version=version))
        self.sizes.append(replicas)

    def _delete(self, seen: ObservedPool) -> None:
        if self.now.pool is not None and self.now.pool.uid == seen.uid:
            self.deleted.append(seen.uid)
            claims = {
                name: replace(claim, state=ClaimState.TERMINATING)
                for name, claim in self.now.claims.items()
            }
            self._change(pool=None, claims=claims)

    def _see(self) -> None:
        self.own = self.now

    # what else happens

    def karpenter(self) -> None:
        """One step of one claim."""
        pool, claims = self.now.pool, dict(self.now.claims)
        living = [each for each in claims.values() if each.state is not ClaimState.TERMINATING]
        going = sorted(claims.keys() - {each.name for each in living})
        if going:
            del claims[going[0]]
        elif pool is not None and len(living) < (pool.replicas or 0):
            self.made += 1
            name = f"c{self.made}"
            claims[name] = ObservedClaim(name, name, ClaimState.PENDING)
        elif pending := [each for each in living if each.state is ClaimState.PENDING]:
            claims[pending[0].name] = replace(pending[0], state=ClaimState.READY)
        if claims != self.now.claims:
            self._change(claims=claims)

    def class_is_ready(self) -> None:
        if not self.now.has_class:
            self._change(has_class=True)

    def node(self, name: str, ready: bool | None) -> None:
        """A node of one's own appears or changes; None if it goes."""
        nodes = {key: value for key, value in self.now.nodes.items() if key != name}
        if ready is not None:
            self.absent.discard(name)
            nodes[name] = ready
        self._change(nodes=nodes)

    def deliver(self, *, everything: bool = False) -> None:
        """Events arrive: the cache moves on, and own records that it shows are dropped."""
        last = len(self.history) - 1
        self.shown = last if everything else self.random.randint(self.shown, last)
        if self.own is not None and self.own in self.history[: self.shown + 1]:
            self.own = None

    def resolve(self) -> None:
        """The outcome of a lost write is looked up."""
        if self.is_pending:
            self.is_pending = False
            self._see()

    def restart(self) -> None:
        """Another process: it knows nothing, and its first list may be of any age."""
        self.own, self.is_pending, self.absent = None, False, set()
        self.shown = self.random.randrange(len(self.history))

    def settle(self) -> PoolDecision:
        """Until nothing changes any more: all events arrive, and Karpenter does its work."""
        for _ in range(200):
            self.class_is_ready()
            self.karpenter()
            self.deliver(everything=True)
            self.resolve()
            before = len(self.history)
            decision = self.reconcile()
            if decision.wait is None and not decision.confirm_nodes and len(self.history) == before:
                return decision
        raise AssertionError("there is no rest")

    @property
    def commitment(self) -> PoolCommitment:
        found = read_pool_commitment(self.now.commitment)
        assert found is not None
        return found

    def _change(self, **changes: object) -> None:
        self.now = replace(self.now, **changes)  # type: ignore[arg-type]
        self.history.append(self.now)
