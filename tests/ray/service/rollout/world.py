"""A small world of one RayService: two clusters, services and a route, as one immutable value.

`neighbours` gives every world that one event leads to: a step of the rollout, a write that arrives,
replicas that become ready or are lost, a cluster or a head that is lost, an edited specification.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controller.ray.service.rollout.facts import (
    ClusterFacts,
    Facts,
    Goal,
    Options,
    Selection,
    Strategy,
)
from controller.ray.service.rollout.selection import wanted_selection
from controller.ray.service.rollout.shares import FULL, Shares
from controller.ray.service.rollout.steps import (
    Change,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
    Step,
    Wait,
)
from controller.ray.service.rollout.transitions import next_step

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECS = "ABC"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that the status names.

    Attributes:
        spec: its specification.
        ready: share of the full size that is ready.
        exists: whether its RayCluster exists.
        has_head: whether its head is ready.
    """

    spec: str
    ready: int = 0
    exists: bool = True
    has_head: bool = True


@dataclass(frozen=True, slots=True)
class World:
    """Everything that the rollout depends on, and what is routed at the moment.

    Attributes:
        goal: the specification that the user wants.
        routed: the weight of the pending cluster that the gateway routes by.
    """

    goal: str = "A"
    active: Cluster | None = None
    pending: Cluster | None = None
    incremental: bool = False
    rolling_back: bool = False
    shares: Shares = field(default_factory=Shares)
    selection: Selection = Selection.NEITHER
    routed: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user has chosen for all the time, and what may happen.

    Attributes:
        partly: whether half of a cluster's replicas may be lost, and not only all of them.
    """

    strategy: Strategy
    options: Options = field(default_factory=Options)
    partly: bool = False


def facts_of(world: World, rules: Rules) -> Facts:
    """The world as the rollout sees it."""
    return Facts(
        strategy=rules.strategy,
        options=rules.options,
        goal=_goal(world),
        active=_cluster(world.active, world.shares.active_capacity),
        pending=_cluster(world.pending, _pending_capacity(world)),
        incremental=world.incremental,
        rolling_back=world.rolling_back,
        shares=world.shares,
        selection=world.selection,
        route_in_force=not world.incremental or world.routed == world.shares.pending_weight,
    )


def _pending_capacity(world: World) -> int:
    return world.shares.pending_capacity if world.incremental else FULL


def _goal(world: World) -> Goal:
    if world.active is not None and world.active.spec == world.goal:
        return Goal.ACTIVE
    if world.pending is not None and world.pending.spec == world.goal:
        return Goal.PENDING
    return Goal.OTHER


def _cluster(cluster: Cluster | None, capacity: int) -> ClusterFacts:
    if cluster is None:
        return ClusterFacts()
    serves = cluster.exists and cluster.ready >= capacity > 0
    return ClusterFacts(True, cluster.exists, cluster.has_head, cluster.ready, serves)


def apply(world: World, step: Step, rules: Rules) -> World:  # noqa: PLR0911  one for each step
    """The world after a step of the rollout was stored."""
    shares = world.shares
    match step:
        case Change.PREPARE | Change.REPLACE_PENDING:
            return _prepare(world, rules)
        case Change.PROMOTE:
            promoted = world.pending
            return replace(_without_pending(world), active=promoted, selection=Selection.ACTIVE)
        case Change.DROP_PENDING:
            return _without_pending(world)
        case Change.BEGIN_ROLLBACK:
            return replace(world, rolling_back=True)
        case Change.RESUME_UPGRADE:
            return replace(world, rolling_back=False)
        case SetActiveCapacity(percent):
            assert world.active is not None
            active = replace(world.active, ready=min(world.active.ready, percent))
            return replace(world, active=active, shares=replace(shares, active_capacity=percent))
        case SetPendingCapacity(percent):
            assert world.pending is not None
            pending = replace(world.pending, ready=min(world.pending.ready, percent))
            return replace(world, pending=pending, shares=replace(shares, pending_capacity=percent))
        case SetPendingWeight(percent):
            return replace(world, shares=replace(shares, pending_weight=percent))
        case Wait():
            return world


def _prepare(world: World, rules: Rules) -> World:
    stepwise = rules.strategy is Strategy.INCREMENTAL and world.active is not None
    selection = world.selection
    if selection is Selection.PENDING:
        selection = Selection.NEITHER
    return replace(
        world, pending=Cluster(world.goal), incremental=stepwise, selection=selection, routed=0
    )


def _without_pending(world: World) -> World:
    selection = Selection.NEITHER if world.selection is Selection.PENDING else world.selection
    return replace(
        world,
        pending=None,
        incremental=False,
        rolling_back=False,
        shares=Shares(),
        routed=0,
        selection=selection,
    )


def writes(world: World, rules: Rules) -> Iterator[World]:
    """The worlds after a write of the operator has arrived."""
    facts = facts_of(world, rules)
    wanted = wanted_selection(facts)
    if wanted is not world.selection:
        yield replace(world, selection=wanted)
    if world.incremental and world.routed != world.shares.pending_weight:
        yield replace(world, routed=world.shares.pending_weight)


def progress(world: World) -> Iterator[World]:
    """The worlds in which replicas have become ready, or a lost cluster was created again."""
    if world.active is not None and world.active.exists:
        full = replace(world.active, ready=world.shares.active_capacity, has_head=True)
        yield replace(world, active=full)
    if world.pending is not None:
        full = replace(world.pending, ready=_pending_capacity(world), has_head=True, exists=True)
        yield replace(world, pending=full)


def misfortunes(world: World, rules: Rules) -> Iterator[World]:
    """The worlds after replicas, a head or a cluster were lost."""
    if world.active is not None and rules.partly:
        yield replace(world, active=_halved(world.active, world.shares.active_capacity))
    if world.active is not None:
        yield replace(world, active=replace(world.active, ready=0, has_head=False))
        gone = replace(world.active, ready=0, has_head=False, exists=False)
        yield replace(world, active=gone)
    if world.pending is not None and rules.partly:
        yield replace(world, pending=_halved(world.pending, _pending_capacity(world)))
    if world.pending is not None:
        yield replace(world, pending=replace(world.pending, ready=0, has_head=False))


def _halved(cluster: Cluster, capacity: int) -> Cluster:
    return replace(cluster, ready=min(cluster.ready, capacity // 2))


def edits(world: World) -> Iterator[World]:
    """The worlds after the user has edited the specification: to an old, a new or a third one."""
    for spec in SPECS:
        if spec != world.goal:
            yield replace(world, goal=spec)


def canonical(world: World) -> World:
    """The same world with its specifications renamed in the order in which they are met."""
    clusters = (world.active, world.pending)
    met = [*(each.spec for each in clusters if each is not None), world.goal]
    names = dict(zip(dict.fromkeys(met), SPECS, strict=False))
    active, pending = (
        None if each is None else replace(each, spec=names[each.spec]) for each in clusters
    )
    return replace(world, goal=names[world.goal], active=active, pending=pending)


def neighbours(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Every world that one event leads to, with the sort of the event."""
    after = apply(world, next_step(facts_of(world, rules)), rules)
    if after != world:
        yield "step", canonical(after)
    for sort, worlds in (
        ("write", writes(world, rules)),
        ("progress", progress(world)),
        ("misfortune", misfortunes(world, rules)),
        ("edit", edits(world)),
    ):
        for each in worlds:
            if each != world:
                yield sort, canonical(each)


def calm_end(world: World, rules: Rules, limit: int) -> tuple[World, int]:
    """The world when everything succeeds and nobody interferes, and the number of its steps.

    Raises:
        AssertionError: there is no end within `limit` steps.
    """
    steps = 0
    while True:
        step = next_step(facts_of(world, rules))
        after = apply(world, step, rules)
        steps += after != world
        assert steps <= limit, f"no end after {limit} steps: {world}"
        settled = after
        for advance in (progress, lambda each: writes(each, rules)):
            for _ in range(3):
                settled = next(iter(w for w in advance(settled) if w != settled), settled)
        if settled == world:
            return world, steps
        world = settled
