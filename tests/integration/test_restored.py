"""A database that is restored to an earlier state while the operator runs."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import DelayedRequest, Rule
from tests.faults.restored import Backup
from tests.integration.harness import RunningOperator, World

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

BOOKMARKS = 150.0 + 60.0
"""Seconds until the watch of a server that is silent is given up, and until all is well again."""


async def ended(world: World, operator: RunningOperator, seconds: float = BOOKMARKS) -> None:
    """Wait until the process has ended because of it."""
    await world.eventually(lambda: not operator.running, seconds=seconds, pause=1)
    assert operator.task.result() == 1


async def test_a_quiet_operator_notices_by_missing_bookmarks(world: World):
    """Nobody writes, so that nothing but the silence of the watches shows what happened."""
    assert world.server is not None
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    await world.settle(120)
    backup = Backup(world.server)
    await world.scale(4)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 4)
    await world.settle(120)
    since = len(operator.transport.journal.entries)
    backup.restore()
    with capture_logs() as logs:
        await ended(world, operator)
    assert writes(operator, since) == []
    [error] = [each["error"] for each in logs if each["event"] == "operator.failed"]
    assert "its database was probably restored from a backup" in error

    world.start_operator()
    await world.eventually(lambda: ready_workers(world, 2))
    cluster = await world.cluster()
    assert cluster.spec["workerGroupSpecs"][0]["replicas"] == 2
    await world.eventually(world.is_ready)
    await world.scale(3)
    await world.eventually(lambda: ready_workers(world, 3))


async def test_an_own_write_shows_it_at_once(world: World):
    """Its answer is older than the store."""
    assert world.server is not None
    slow = Rule(DelayedRequest(3.0), "pods", frozenset({"create"}))
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    backup = Backup(world.server)
    for number in range(20):
        patch: dict[str, Any] = {"metadata": {"annotations": {"n": str(number)}}}
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", patch)
    operator.transport.rules.append(slow)
    await world.scale(4)
    await world.settle(1)
    backup.restore()
    await ended(world, operator, seconds=10)
    world.start_operator()
    await world.eventually(lambda: ready_workers(world, 2), seconds=BOOKMARKS)


async def test_the_first_cache_that_notices_ends_the_process_before_it_is_read(world: World):
    """Pods are seen to be gone long before the cluster is seen to want fewer."""
    assert world.server is not None
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    backup = Backup(world.server)
    await world.scale(4)
    await world.eventually(lambda: ready_workers(world, 4))
    await world.settle(120)
    operator.transport.rules += [
        Rule(DelayedRequest(30.0), str(RAYCLUSTERS), frozenset({"list", "watch"}))
    ]
    since = len(operator.transport.journal.entries)
    backup.restore()
    (pods,) = (each for each in operator.operator.caches.caches if each.scope.resource is PODS)
    pods.informer.relist("the first to notice")
    await ended(world, operator, seconds=10)
    assert [each for each in writes(operator, since) if "pods" in each] == []


async def test_a_server_whose_revisions_go_on_is_noticed_by_what_it_has_never_shown(world: World):
    """As etcd's manual advises: watches expire, and the cluster is listed before its pods are."""
    assert world.server is not None
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    backup = Backup(world.server)
    await world.user.delete(RAYCLUSTERS, world.namespace, "example")
    await world.eventually(world.is_gone)
    created = len(world.journal.created)
    operator.transport.rules.append(
        Rule(DelayedRequest(10.0), "pods", frozenset({"list", "watch"}))
    )
    backup.restore(revision=world.server.store.revision + 1_000_000)
    await ended(world, operator, seconds=5)
    world.start_operator()
    await world.settle(60)
    assert len(world.journal.created) == created
    await world.scale(3)
    await world.eventually(lambda: ready_workers(world, 3), seconds=BOOKMARKS)


def writes(operator: RunningOperator, since: int) -> list[tuple[str, str]]:
    """The operator's writes since then, but for events."""
    made = [entry.attributes for entry in operator.transport.journal.entries[since:]]
    return [
        (each.verb, each.resource)
        for each in made
        if each.verb not in {"get", "list", "watch"} and "events" not in each.resource
    ]


async def ready_workers(world: World, count: int) -> bool:
    pods = await world.user.list(PODS, world.namespace, label_selector="ray.io/node-type=worker")
    ready = [
        pod
        for pod in pods.items
        if not pod.metadata.terminating
        and any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    ]
    return len(ready) == count
