"""Multi-host replicas through kills and lost hosts: whole or none."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import (
    JournalEntry,
    Lag,
    Rule,
)
from tests.integration.harness import (
    RunningOperator,
    World,
    embedded_world,
    example_cluster,
    live,
    role,
)
from tests.integration.sweeps import Kill, Sweep, at_each_kill

pytestmark = pytest.mark.slow

HOSTS = 3
REPLICAS = 2
WHOLE = {str(number) for number in range(HOSTS)}


def manifest(replicas: int = REPLICAS) -> dict[str, Any]:
    body = example_cluster(replicas=replicas)
    body["spec"]["workerGroupSpecs"][0]["numOfHosts"] = HOSTS
    return body


def slices(world: World) -> dict[str, set[str]]:
    """Host indices of the live pods of each slice."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for pod in world.journal.workers():
        labels = pod.metadata.labels or {}
        name, host = labels["ray.io/worker-group-replica-name"], labels["ray.io/replica-host-index"]
        assert host not in found[name], "no host twice"
        found[name].add(host)
    return dict(found)


def whole(world: World, replicas: int = REPLICAS) -> bool:
    """Whether just these replicas are there, all of them whole."""
    present = slices(world)
    return len(present) == replicas and all(hosts == WHOLE for hosts in present.values())


async def start(world: World, *rules: Rule) -> RunningOperator:
    operator = world.start_operator(rules=rules)
    await world.user.create(RAYCLUSTERS, world.namespace, manifest())
    return operator


async def test_one_lost_host_costs_its_slice_and_no_other(world: World):
    await start(world)
    await world.eventually(world.is_ready)
    before = slices(world)
    lost, kept = sorted(before)
    for pod in world.journal.workers():
        if (pod.metadata.labels or {})["ray.io/worker-group-replica-name"] == lost:
            await world.user.delete(PODS, world.namespace, pod.metadata.name)
            break
    await world.eventually(lambda: whole(world) and lost not in slices(world))
    assert kept in slices(world)
    await world.settle(10)
    assert world.journal.workers_created() == HOSTS * (REPLICAS + 1)
    assert world.journal.workers_deleted() == HOSTS


def creates_a_pod(entry: JournalEntry) -> bool:
    return entry.attributes.verb == "create" and entry.attributes.resource == "pods"


@pytest.mark.embedded_only
@pytest.mark.usefixtures("silence")
@pytest.mark.timeout(600)
@at_each_kill
async def test_killed_between_the_hosts_of_a_slice_it_is_removed_once_and_made_anew(fault: Kill):
    async def life(world: World) -> tuple[bool, bool, bool]:
        await world.user.create(RAYCLUSTERS, world.namespace, manifest())
        await world.eventually(lambda: whole(world), seconds=240)
        await world.settle(60)
        (head,) = [pod for pod in world.journal.created.values() if role(pod) == "head"]
        parts_only = world.journal.workers_deleted() <= REPLICAS * (HOSTS - 1)
        return whole(world), live(head), parts_only

    sweep = Sweep[tuple[bool, bool, bool]]()
    async with embedded_world() as world:

        def begin() -> RunningOperator:
            return world.start_operator(rules=[Rule(Lag(2.0), resource="pods")])

        sweep.disturb(fault, world, begin(), ours=creates_a_pod, again=begin)
        await sweep.comes_to((True, True, True), life(world), more_than=HOSTS * REPLICAS)
