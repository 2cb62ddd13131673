"""A database that is restored to an earlier state while the operator runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.faults.faulty_transport import DelayedRequest, ErrorResponse, Rule
from tests.faults.restored import Backup

if TYPE_CHECKING:
    from tests.integration.harness import RunningOperator, World

pytestmark = pytest.mark.embedded_only

BOOKMARKS = 150.0 + 60.0
"""Seconds until the watch of a server that is silent is given up, and until all is well again."""


async def agrees(world: World, operator: RunningOperator) -> bool:
    """Whether all caches show what is on the server."""
    for cache in operator.operator.caches.caches:
        listed = await world.user.list_metadata(
            cache.scope.resource, world.namespace, label_selector=cache.scope.label_selector
        )
        there = {obj.metadata.key: obj.metadata.resource_version for obj in listed.items}
        held = {
            obj.metadata.key: obj.metadata.resource_version for obj in cache.informer.lister.list()
        }
        if there != held:
            return False
    return operator.operator.expectations.statistics().expectations == 0


def resets(registry: CollectorRegistry) -> float:
    name = "informer_resets_total"
    [family] = [each for each in registry.collect() if each.name == name.removesuffix("_total")]
    return sum(sample.value for sample in family.samples if sample.name == name)


async def test_EXP45_a_quiet_operator_notices_by_missing_bookmarks(world: World):
    """Nobody writes, so that nothing but the silence of the watches shows what happened."""
    assert world.server is not None
    registry = CollectorRegistry()
    operator = world.start_operator(registry=registry)
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    await world.settle(120)
    backup = Backup(world.server)
    await world.scale(4)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 4)
    await world.settle(120)
    backup.restore()
    await world.eventually(lambda: agrees(world, operator), seconds=BOOKMARKS)
    assert resets(registry) > 0
    cluster = await world.cluster()
    assert cluster.spec["workerGroupSpecs"][0]["replicas"] == 2
    await world.eventually(world.is_ready)
    await world.scale(3)
    await world.eventually(lambda: ready_workers(world, 3))
    assert operator.operator.caches.unready() is None


async def test_EXP45_an_own_write_shows_it_at_once(world: World):
    """Its answer is older than the store."""
    assert world.server is not None
    registry = CollectorRegistry()
    slow = Rule(DelayedRequest(3.0), "pods", frozenset({"create"}))
    operator = world.start_operator(registry=registry)
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
    await world.settle(10)
    assert resets(registry) > 0
    await world.eventually(lambda: agrees(world, operator))
    await world.eventually(lambda: ready_workers(world, 2), seconds=BOOKMARKS)
    assert operator.operator.caches.unready() is None


async def test_EXP45_between_the_first_and_the_last_cache_nothing_is_created_or_deleted(
    world: World,
):
    """Pods are seen to be gone 30 s before the cluster is seen to want fewer."""
    assert world.server is not None
    operator = world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    backup = Backup(world.server)
    await world.scale(4)
    await world.eventually(lambda: ready_workers(world, 4))
    await world.settle(120)
    slow = Rule(DelayedRequest(30.0), str(RAYCLUSTERS), frozenset({"list"}))
    hidden = Rule(ErrorResponse(500, "InternalError"), str(RAYCLUSTERS), frozenset({"watch"}))
    operator.transport.rules += [slow, hidden]
    since = len(operator.transport.journal.entries)
    backup.restore()
    caches = operator.operator.caches
    (pods,) = (each for each in caches.caches if each.scope.resource is PODS)
    pods.informer.relist("the first to notice")
    await world.settle(5)
    assert {str(each.scope.resource) for each in caches.rewind.awaited} == {str(RAYCLUSTERS)}
    await world.settle(20)
    assert writes(operator, since) == []
    assert operator.operator.expectations.held
    assert caches.unready() is not None
    operator.transport.rules.remove(hidden)
    await world.eventually(lambda: agrees(world, operator), seconds=BOOKMARKS)
    assert not operator.operator.expectations.held
    assert [each for each in writes(operator, since) if "pods" in each] == []
    await world.scale(3)
    await world.eventually(lambda: ready_workers(world, 3), seconds=BOOKMARKS)


async def test_EXP45_a_server_whose_revisions_go_on_is_noticed_by_what_it_has_never_shown(
    world: World,
):
    """As etcd's manual advises: watches expire, and the cluster is listed before its pods are."""
    assert world.server is not None
    registry = CollectorRegistry()
    operator = world.start_operator(registry=registry)
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
    await world.settle(5)
    assert resets(registry) > 0
    assert operator.operator.expectations.held
    await world.eventually(lambda: agrees(world, operator), seconds=BOOKMARKS)
    await world.settle(60)
    assert len(world.journal.created) == created
    await world.scale(3)
    await world.eventually(lambda: ready_workers(world, 3), seconds=BOOKMARKS)
    assert operator.operator.caches.unready() is None


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
