"""Decides what is done about the NodePool of a Workspace: a pure function of the observation.

The size is committed before the pool is created. Its name follows from that of the Workspace, so
that there is never a second one, and its size only grows. Nodes and claims that were there before
cover a part of the target for as long as they exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from controller.kaito.api.status import NODE_CLAIM_READY, Cause, ConditionFacts
from controller.kaito.provisioning.claims import (
    BENIGN_REASONS,
    CLAIMS_READY,
    ClaimState,
    ObservedClaim,
    Owner,
)
from controller.kaito.provisioning.pools import ObservedPool, PoolCommitment

NAME_TAKEN: Final = "NodePoolNameTaken"


class ObservedNodeClass(Struct, frozen=True):
    """The NodeClass that the pool refers to.

    Attributes:
        problem: why no pool can use it yet; None if one can.
        is_missing: whether it does not exist, and is to be created.
    """

    name: str = ""
    problem: Cause | None = None
    is_missing: bool = False


class PoolFacts(Struct, frozen=True):
    """The facts on which the decision depends.

    What is wanted, and what is there besides, are added once it is known how many nodes are needed.

    Attributes:
        template: the machine and the labels.
        found: the NodePool of this name, of any owner.
        is_pending: whether the outcome of a write to it is not known.
        is_taken: whether a create has met an object of another owner that is not seen.
        is_absent: whether a live look-up has not found it.
        ready_nodes: names of ready nodes that need no claim.
        existing_nodes: names of all nodes that need no claim.
        earlier_claims: claims that were made without a pool, by name.
        absent: names of nodes and claims that certainly do not exist any more, or do not fit.
    """

    name: str
    target: int = 0
    instance_type: str = ""
    template: str = ""
    commitment: PoolCommitment | None = None
    found: ObservedPool | None = None
    is_pending: bool = False
    is_taken: bool = False
    is_absent: bool = False
    claims: Mapping[str, ObservedClaim] = field(default_factory=dict[str, ObservedClaim])
    node_class: ObservedNodeClass = ObservedNodeClass()
    ready_nodes: frozenset[str] = frozenset()
    existing_nodes: frozenset[str] = frozenset()
    earlier_claims: Mapping[str, ObservedClaim] = field(default_factory=dict[str, ObservedClaim])
    absent: frozenset[str] = frozenset()

    @property
    def own_pool(self) -> ObservedPool | None:
        """The pool, if it belongs to this Workspace."""
        is_own = self.found is not None and self.found.owner is Owner.THIS
        return self.found if is_own else None


class PoolDecision(Struct, frozen=True):
    """The step that is due; the commitment comes first.

    Attributes:
        is_due: whether the size is to be stored; not before something can be done.
        grow: whether the pool gets the committed number of nodes.
        confirm_nodes: names of nodes that a live look-up must find absent.
        wait: what is waited for, None if all claims are ready.
    """

    commitment: PoolCommitment
    is_due: bool = True
    create: bool = False
    create_class: bool = False
    grow: bool = False
    delete: bool = False
    confirm_nodes: tuple[str, ...] = ()
    confirm_claims: tuple[str, ...] = ()
    wait: Cause | None = None


def decide_pool(facts: PoolFacts) -> PoolDecision:
    """Return the next step."""
    stored = facts.commitment
    if stored is not None and stored.template == facts.template:
        nodes, claims = _unconfirmed(stored, facts)
        if nodes or claims:
            return PoolDecision(stored, confirm_nodes=nodes, confirm_claims=claims)
        commitment = _with_losses(stored, facts)
    else:
        commitment = _first(facts)
    return _step(commitment, facts)


def _first(facts: PoolFacts) -> PoolCommitment:
    """Return the first size: a pool, claims and nodes that are there already count."""
    pool = facts.own_pool
    replicas = (pool.replicas or 0) if pool is not None and _is_current(pool, facts) else 0
    target, template = facts.target, facts.template
    size = PoolCommitment(target=target, template=template, replicas=min(replicas, target))
    return _filled(size, facts)


def _with_losses(commitment: PoolCommitment, facts: PoolFacts) -> PoolCommitment:
    """Return the size after nodes or claims were lost that were there before."""
    kept = replace(
        commitment,
        nodes=tuple(n for n in commitment.nodes if n in facts.existing_nodes),
        claims=tuple(n for n in commitment.claims if n in _living(facts)),
    )
    return commitment if kept == commitment else _filled(kept, facts)


def _filled(commitment: PoolCommitment, facts: PoolFacts) -> PoolCommitment:
    """Return the size that reaches the target: by what is there already, then by a larger pool."""
    missing = max(commitment.target - commitment.covered - commitment.replicas, 0)
    claims = sorted(_living(facts).keys() - set(commitment.claims))[:missing]
    missing -= len(claims)
    nodes = sorted(facts.ready_nodes - set(commitment.nodes))[:missing]
    missing -= len(nodes)
    return replace(
        commitment,
        claims=(*commitment.claims, *claims),
        nodes=(*commitment.nodes, *nodes),
        replicas=commitment.replicas + missing,
    )


def _living(facts: PoolFacts) -> dict[str, ObservedClaim]:
    claims = facts.earlier_claims.items()
    return {name: each for name, each in claims if each.state is not ClaimState.TERMINATING}


def _unconfirmed(
    commitment: PoolCommitment, facts: PoolFacts
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return committed nodes and claims that are neither observed nor known to be gone."""
    seen = facts.existing_nodes | facts.earlier_claims.keys() | facts.absent
    nodes = tuple(name for name in commitment.nodes if name not in seen)
    return nodes, tuple(name for name in commitment.claims if name not in seen)


def _is_current(pool: ObservedPool, facts: PoolFacts) -> bool:
    """Return whether a pool is for the wanted nodes; Kaito's have no mark, and count as such."""
    return pool.template in {"", facts.template}


def _step(commitment: PoolCommitment, facts: PoolFacts) -> PoolDecision:
    """Return the decision that the size leads to."""
    pool = facts.found
    if not commitment.replicas and facts.own_pool is None:
        return PoolDecision(commitment)
    obstacle = _obstacle(facts)
    if obstacle is not None:
        return _waiting(commitment, facts, obstacle)
    if pool is None:
        return _without_pool(commitment, facts)
    if not _is_current(pool, facts):
        return PoolDecision(commitment, delete=True, wait=_until_gone(pool.name))
    return _with_pool(commitment, facts, pool)


def _obstacle(facts: PoolFacts) -> Cause | None:
    """Return why nothing may be done about the pool now, None if there is none."""
    if facts.is_pending:
        return Cause("", f"NodePool {facts.name}: waiting until the outcome of a write is known")
    if facts.found is not None:
        return _obstacle_of(facts.found)
    if facts.is_taken:
        return _taken(facts.name, Owner.OTHER.value)
    is_going = any(each.state is ClaimState.TERMINATING for each in facts.claims.values())
    return _until_gone(facts.name) if is_going else None


def _obstacle_of(pool: ObservedPool) -> Cause | None:
    """Return the same for an existing pool: it may be another owner's (KAI-9) or terminating."""
    if pool.owner is Owner.OTHER:
        return _taken(pool.name, pool.owner_text)
    if pool.is_terminating:
        return _until_gone(pool.name)
    if pool.owner is Owner.THIS:
        return None
    remedy = "delete it, and another one is created for this Workspace"
    return Cause(NAME_TAKEN, f"NodePool {pool.name} belongs to {pool.owner_text}: {remedy}")


def _without_pool(commitment: PoolCommitment, facts: PoolFacts) -> PoolDecision:
    found = facts.node_class
    if found.problem is not None:
        return _waiting(commitment, facts, found.problem, create_class=found.is_missing)
    wait = Cause("", f"waiting until NodePool {facts.name} exists")
    return PoolDecision(commitment, create=True, wait=wait)


def _with_pool(commitment: PoolCommitment, facts: PoolFacts, pool: ObservedPool) -> PoolDecision:
    if pool.replicas is None:
        message = (
            f"NodePool {pool.name} has no replicas, so that Karpenter creates no node for it "
            "before a pod asks for one: install a version of Karpenter with static capacity, and "
            "delete the NodePool"
        )
        return PoolDecision(commitment, wait=Cause("NodePoolNotStatic", message))
    if not pool.is_for(facts.instance_type):
        message = (
            f"the nodes of NodePool {pool.name} are {' or '.join(pool.instance_types)}, and "
            f"{facts.instance_type} is asked for: delete the NodePool, and another one is created"
        )
        return PoolDecision(commitment, wait=Cause("NodePoolDiffers", message))
    grow = pool.replicas < commitment.replicas
    return PoolDecision(commitment, grow=grow, wait=_claims_wait(commitment, facts, pool))


def _claims_wait(commitment: PoolCommitment, facts: PoolFacts, pool: ObservedPool) -> Cause | None:
    """Return the wait for claims, with the first cause for a person; None if all are ready.

    Karpenter replaces claims that fail. As many must be ready as are committed.
    """
    ready = [each for each in facts.claims.values() if each.state is ClaimState.READY]
    if len(ready) >= commitment.replicas:
        return None
    reason, message = next(_causes(facts, pool), ("", ""))
    progress = f"NodePool {pool.name}: {len(ready)} of {commitment.replicas} NodeClaims are ready"
    if not facts.claims:
        progress += "; Karpenter needs its feature gate StaticCapacity"
    return Cause(reason, f"{message}; {progress}" if message else progress)


def _causes(facts: PoolFacts, pool: ObservedPool) -> Iterator[tuple[str, str]]:
    for name in sorted(facts.claims):
        claim = facts.claims[name]
        if claim.state is not ClaimState.READY and claim.reason not in BENIGN_REASONS:
            yield claim.reason, f"NodeClaim {name}: {claim.message}"
    if pool.reason:
        yield pool.reason, pool.message


def _waiting(
    commitment: PoolCommitment, facts: PoolFacts, wait: Cause, *, create_class: bool = False
) -> PoolDecision:
    """Return a decision that leaves the pool as it is; a first size is decided again later."""
    is_due = facts.commitment is not None
    return PoolDecision(commitment, is_due=is_due, create_class=create_class, wait=wait)


def _until_gone(name: str) -> Cause:
    return Cause("", f"NodePool {name}: waiting until it is gone with its NodeClaims")


def _taken(name: str, owner: str) -> Cause:
    remedy = "create this Workspace under another name, or delete or rename the other one"
    return Cause(NAME_TAKEN, f"NodePool {name} belongs to {owner}: {remedy}")


def pool_condition(wait: Cause | None) -> ConditionFacts:
    """Return `NodeClaimReady` for claims that a NodePool creates."""
    if wait is None:
        return CLAIMS_READY
    if wait.reason:
        return ConditionFacts(NODE_CLAIM_READY, False, wait.reason, wait.message)
    message = f"Ready NodeClaims are not enough; {wait.message}"
    return ConditionFacts(NODE_CLAIM_READY, False, "NodeClaimNotReady", message)
