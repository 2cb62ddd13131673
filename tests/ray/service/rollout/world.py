"""A small world of one RayService: two clusters, services and a route, as one immutable value.

`neighbours` gives every world that one event leads to: a step of the rollout, a write that arrives,
replicas that become ready or are lost, a cluster or a head that is lost, an edited specification.
Nothing of a world is in the operator's memory, so a restart changes none. It makes the operator
blind until dashboards have answered, and every step and write is tried with each cluster unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from msgspec import Struct, field

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout import (
    FULL,
    Change,
    ClusterFacts,
    GoalCluster,
    Options,
    RolloutFacts,
    RolloutStep,
    RolloutWait,
    SelectedCluster,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
    Shares,
    next_step,
    wanted_selection,
)

SPECS = "ABC"
WHOLE = Shares()


class Cluster(NamedTuple):
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


class World(NamedTuple):
    """Everything that the rollout depends on, and what is routed at the moment.

    Attributes:
        goal: the specification that the user wants.
        strategy: what the user wants a new one to lead to.
        routed: the weight of the pending cluster that the gateway routes by.
        gateway: whether there is one; it stays.
    """

    strategy: UpgradeType
    goal: str = "A"
    active: Cluster | None = None
    pending: Cluster | None = None
    incremental: bool = False
    rolling_back: bool = False
    shares: Shares = WHOLE
    selection: SelectedCluster = SelectedCluster.NEITHER
    routed: int = 0
    gateway: bool = False


class Sight(NamedTuple):
    """Whether the dashboard of each cluster has answered."""

    active: bool = True
    pending: bool = True


CLEAR = Sight()
SIGHTS = tuple(Sight(*each) for each in product((True, False), repeat=2))


class Rules(Struct, frozen=True):
    """What a user has chosen for all the time, and what may happen.

    Attributes:
        strategies: what the user chooses among; the first at the beginning.
        partly: whether half of a cluster's replicas may be lost, and not only all of them.
        blind: whether dashboards may have given no answer.
    """

    strategies: tuple[UpgradeType, ...]
    options: Options = field(default_factory=Options)
    partly: bool = False
    blind: bool = True

    @property
    def sights(self) -> tuple[Sight, ...]:
        """What the operator may see of the clusters."""
        return SIGHTS if self.blind else SIGHTS[:1]

    def __str__(self) -> str:
        """Short enough for the name of a test."""
        chosen = "/".join(each.value for each in self.strategies)
        losses = " parts" if self.partly else ""
        return f"{chosen} surge {self.options.surge} step {self.options.step}{losses}"


def facts_of(world: World, rules: Rules, sight: Sight = CLEAR) -> RolloutFacts:
    """The world as the rollout sees it."""
    return RolloutFacts(
        strategy=world.strategy,
        options=rules.options,
        goal=_goal(world),
        active=_cluster(world.active, world.shares.active_capacity, seen=sight.active),
        pending=_cluster(world.pending, _pending_capacity(world), seen=sight.pending),
        incremental=world.incremental,
        rolling_back=world.rolling_back,
        shares=world.shares,
        selection=world.selection,
        gateway_is_possible=world.gateway or world.strategy is UpgradeType.INCREMENTAL,
        route_in_force=not world.incremental
        or (world.gateway and world.routed == world.shares.pending_weight),
    )


def _pending_capacity(world: World) -> int:
    return world.shares.pending_capacity if world.incremental else FULL


def _goal(world: World) -> GoalCluster:
    """A pending cluster that does not exist yet is created as it is wanted."""
    active, pending = world.active, world.pending
    if active is not None and active.exists and active.spec == world.goal:
        return GoalCluster.ACTIVE
    if pending is not None and (pending.spec == world.goal or not pending.exists):
        return GoalCluster.PENDING
    return GoalCluster.OTHER


def _cluster(cluster: Cluster | None, capacity: int, *, seen: bool) -> ClusterFacts:
    if cluster is None:
        return ClusterFacts()
    if not seen and cluster.has_head:
        return ClusterFacts(True, cluster.exists, cluster.has_head, None)
    serves = cluster.exists and cluster.ready >= capacity > 0
    return ClusterFacts(True, cluster.exists, cluster.has_head, cluster.ready, serves)


def apply(world: World, step: RolloutStep) -> World:  # noqa: C901, PLR0911  one for each step
    """The world after a step of the rollout was stored."""
    shares = world.shares
    match step:
        case Change.PREPARE | Change.REPLACE_PENDING:
            return _prepare(world)
        case Change.PROMOTE:
            promoted = world.pending
            return _without_pending(world)._replace(
                active=promoted, selection=SelectedCluster.ACTIVE
            )
        case Change.DROP_PENDING:
            return _without_pending(world)
        case Change.BEGIN_ROLLBACK:
            return world._replace(rolling_back=True)
        case Change.RESUME_UPGRADE:
            return world._replace(rolling_back=False)
        case Change.STOP_DIVIDING:
            return world._replace(incremental=False, rolling_back=False, shares=WHOLE, routed=0)
        case SetActiveCapacity(percent):
            active = _limited(world.active, percent)
            return world._replace(
                active=active,
                shares=Shares(percent, shares.pending_capacity, shares.pending_weight),
            )
        case SetPendingCapacity(percent):
            pending = _limited(world.pending, percent)
            return world._replace(
                pending=pending,
                shares=Shares(shares.active_capacity, percent, shares.pending_weight),
            )
        case SetPendingWeight(percent):
            capacities = shares.active_capacity, shares.pending_capacity
            return world._replace(shares=Shares(*capacities, percent))
        case RolloutWait():
            return world


def _limited(cluster: Cluster | None, percent: int) -> Cluster:
    assert cluster is not None
    return cluster._replace(ready=min(cluster.ready, percent))


def _prepare(world: World) -> World:
    stepwise = world.strategy is UpgradeType.INCREMENTAL and bool(
        world.active and world.active.exists
    )
    selection = world.selection
    if selection is SelectedCluster.PENDING:
        selection = SelectedCluster.NEITHER
    return world._replace(
        pending=Cluster(world.goal), incremental=stepwise, selection=selection, routed=0
    )


def _without_pending(world: World) -> World:
    selection = (
        SelectedCluster.NEITHER if world.selection is SelectedCluster.PENDING else world.selection
    )
    return world._replace(
        pending=None,
        incremental=False,
        rolling_back=False,
        shares=WHOLE,
        routed=0,
        selection=selection,
    )


def writes(world: World, rules: Rules, sight: Sight = CLEAR) -> Iterator[World]:
    """The worlds after a write of the operator has arrived."""
    wanted = wanted_selection(facts_of(world, rules, sight))
    if wanted is not world.selection:
        yield world._replace(selection=wanted)
    if not world.gateway and world.strategy is UpgradeType.INCREMENTAL:
        yield world._replace(gateway=True)
    if world.gateway and world.incremental and world.routed != world.shares.pending_weight:
        yield world._replace(routed=world.shares.pending_weight)


def progress(world: World) -> Iterator[World]:
    """The worlds in which replicas have become ready, or a lost cluster was created again."""
    if world.active is not None and world.active.exists:
        full = world.active._replace(ready=world.shares.active_capacity, has_head=True)
        yield world._replace(active=full)
    pending = world.pending
    if pending is None:
        return
    if not pending.exists:
        if world.rolling_back:
            return
        yield world._replace(pending=Cluster(world.goal))
    else:
        full = pending._replace(ready=_pending_capacity(world), has_head=True)
        yield world._replace(pending=full)


def misfortunes(world: World, rules: Rules) -> Iterator[World]:
    """The worlds after replicas, a head or a cluster were lost."""
    if world.active is not None:
        capacity = world.shares.active_capacity
        for each in _misfortunes(world.active, capacity, rules):
            yield world._replace(active=each)
    if world.pending is not None:
        for each in _misfortunes(world.pending, _pending_capacity(world), rules):
            yield world._replace(pending=each)


def _misfortunes(cluster: Cluster, capacity: int, rules: Rules) -> Iterator[Cluster]:
    if rules.partly:
        yield cluster._replace(ready=min(cluster.ready, capacity // 2))
    yield cluster._replace(ready=0, has_head=False)
    yield cluster._replace(ready=0, has_head=False, exists=False)


def edits(world: World, rules: Rules) -> Iterator[World]:
    """The worlds after the user has edited the specification: to an old, a new or a third one."""
    for spec in SPECS:
        yield world._replace(goal=spec)
    for strategy in rules.strategies:
        yield world._replace(strategy=strategy)


def canonical(world: World) -> World:
    """The same world with its specifications renamed in the order in which they are met."""
    active, pending = world.active, world.pending
    met = {each.spec: None for each in (active, pending) if each is not None}
    met[world.goal] = None
    names = dict(zip(met, SPECS, strict=False))
    if all(old == new for old, new in names.items()):
        return world
    return world._replace(
        goal=names[world.goal],
        active=active and active._replace(spec=names[active.spec]),
        pending=pending and pending._replace(spec=names[pending.spec]),
    )


def neighbours(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Every world that one event leads to, with the sort of the event."""
    steps = {next_step(facts_of(world, rules, sight)) for sight in rules.sights}
    written = {each for sight in rules.sights for each in writes(world, rules, sight)}
    for sort, worlds in (
        ("step", (apply(world, step) for step in steps)),
        ("write", written),
        ("progress", progress(world)),
        ("misfortune", misfortunes(world, rules)),
        ("edit", edits(world, rules)),
    ):
        for each in worlds:
            if each != world:
                yield sort, canonical(each)


def calm_successor(world: World, rules: Rules) -> World:
    """The world after the next step, all writes and all progress, when nobody interferes."""
    settled = apply(world, next_step(facts_of(world, rules)))
    for advance in (progress, lambda each: writes(each, rules)):
        for _ in range(4):
            settled = next((each for each in advance(settled) if each != settled), settled)
    return canonical(settled)
