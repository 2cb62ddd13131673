"""Definitions of another version than the operator's: what they drop must hurt nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import watch_lag
from tests.integration.definitions import (
    RAYCLUSTERS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.harness import World, example_cluster
from tests.integration.rayservices import Services, serve_config, service_manifest
from tests.integration.test_failing_keys import KINDS, begin, requests
from tests.integration.test_rayservices import greeting

# A real server may publish a schema half a minute late.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
async def definition_restored(world: World) -> AsyncIterator[None]:
    """A real server serves the next test, too."""
    yield
    for operator in world.operators:
        await operator.kill()
    await restore_definition(world)


@pytest.mark.embedded_only
@pytest.mark.parametrize("kind", KINDS)
async def test_conditions_that_a_definition_drops_and_a_late_watch_cause_no_loop(
    world: World, kind: str
):
    resource = str(KINDS[kind].resource)
    schedule = {"schedule": "0 1 1 1 *"} if kind == "cron" else {}
    operator = await begin(world, kind, rules=[watch_lag(resource, 3.0)], **schedule)
    await drop_fields(world, "status.conditions", name=resource)
    await world.settle(120)
    since = len(operator.transport.journal.entries)
    await world.settle(300)
    asked = requests(operator, since)
    assert asked.count(f"patch {resource}") <= 2, asked


def slices() -> dict[str, Any]:
    """A group of two replicas with four hosts each."""
    manifest = example_cluster(replicas=2)
    manifest["spec"]["workerGroupSpecs"][0] |= {"numOfHosts": 4, "minReplicas": 0}
    return manifest


@pytest.mark.vital
@pytest.mark.parametrize(
    ("field", "manifest"),
    [
        ("spec.workerGroupSpecs.numOfHosts", slices()),
        ("spec.workerGroupSpecs", example_cluster(replicas=10)),
    ],
    ids=["hosts", "groups"],
)
async def test_a_definition_that_drops_a_field_of_the_groups_deletes_no_worker(
    world: World, field: str, manifest: dict[str, Any]
):
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(world.is_ready)
    pods = len(world.journal.created)

    await drop_fields(world, field)
    touch = {"metadata": {"annotations": {"touched": "yes"}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", touch)
    await world.eventually(lambda: holds_deletions(world))
    await world.settle(5)
    assert (len(world.journal.created), world.journal.marked) == (pods, set())
    ready = await world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "DeletionHeld")

    await restore_definition(world)
    await world.eventually(lambda: is_well_when_applied(world, manifest), pause=1.0)
    assert (len(world.journal.created), world.journal.marked) == (pods, set())


@pytest.mark.vital
async def test_a_restart_does_not_explain_what_a_definition_dropped_meanwhile(world: World):
    first = world.start_operator()
    await world.create_cluster(replicas=10)
    await world.eventually(world.is_ready)
    await first.stop()
    await drop_fields(world, "spec.workerGroupSpecs")
    world.start_operator()
    await world.eventually(lambda: holds_deletions(world))
    await world.settle(5)
    assert world.journal.marked == set()

    for pod in world.journal.workers():
        await world.user.delete(PODS, world.namespace, pod.metadata.name)
    await world.eventually(lambda: not world.journal.workers())
    await world.eventually(lambda: is_ready_again(world))


async def holds_deletions(world: World) -> bool:
    return bool((await world.condition("DeletionHeld"))["status"])


async def is_ready_again(world: World) -> bool:
    return not await holds_deletions(world) and await world.is_ready()


async def is_well_when_applied(world: World, manifest: dict[str, Any]) -> bool:
    """Apply until it holds: a real server serves the restored definition a moment later."""
    spec = {"spec": manifest["spec"]}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", spec)
    ready = await world.condition("Ready")
    return ready["status"] == "True" and not await holds_deletions(world)


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("name", "field"),
    [
        (RAYSERVICES_CRD, "status.activeServiceStatus.rayClusterName"),
        (RAYSERVICES_CRD, "spec.serveConfigV2"),
        (RAYCLUSTERS_CRD, "spec.workerGroupSpecs"),
        *(
            (RAYSERVICES_CRD, field)
            for field in (
                "status",
                "status.activeServiceStatus",
                "status.conditions",
                "status.observedGeneration",
                "spec.rayClusterConfig.workerGroupSpecs",
                "spec.rayClusterConfig.enableInTreeAutoscaling",
            )
        ),
    ],
)
async def test_what_serves_survives_a_definition_that_drops_a_field(
    world: World, services: Services, name: str, field: str
):
    operator = services.start_operator()
    await services.deployed(service_manifest(rayClusterDeletionDelaySeconds=0))
    await world.settle(10)  # no write is under way that would store what is read then
    cluster = await services.active()
    await drop_fields(world, field, name=name)

    async def is_reported() -> bool:
        return any(
            reason == "DefinitionIncomplete" and field in note and "manta crds" in note
            for reason, note in await world.events_about("RayService", "svc")
        )

    await world.eventually(is_reported)
    await operator.kill()
    services.start_operator()
    await world.settle(120)
    serve = services.serve_of(cluster)
    assert [greeting(put) for put in serve.puts] == ["hi"]
    assert await services.clusters() == [cluster]
    assert await services.selected() == cluster

    await restore_definition(world, name=name)
    await world.settle(60)
    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(serve.puts) == 2, seconds=60)
    assert [greeting(put) for put in serve.puts] == ["hi", "hello"]
    assert await services.clusters() == [await services.active()] == [cluster]
