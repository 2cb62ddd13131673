"""Definitions of another version than the operator's: what they drop must hurt nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from controller.kube.resources import PODS
from controller.kube.transport import RawResponse, Request, Transport
from controller.ray.api import RAYCLUSTERS, RAYSERVICES
from controller.testing.faults import watch_lag
from tests.integration.definitions import (
    RAYCLUSTERS_CRD,
    RAYSERVICES_CRD,
    drop_fields,
    restore_definition,
)
from tests.integration.harness import OPERATOR, World, example_cluster
from tests.integration.rayservices import Services, serve_config, service_manifest, with_image
from tests.integration.test_failing_keys import KINDS, begin, requests
from tests.integration.test_rayservices import greeting

# A real server may publish a schema half a minute late.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STATUS = "rayclusters.ray.io/status"


@pytest.fixture(autouse=True)
async def definition_restored(world: World) -> AsyncIterator[None]:
    """A real server serves the next test, too."""
    yield
    for operator in world.operators:
        await operator.kill()
    await restore_definition(world)


@pytest.mark.embedded_only
@pytest.mark.parametrize("field", ["status.conditions", "status.desiredCPU"])
async def test_a_status_field_that_is_pruned_and_a_late_watch_cause_no_loop(
    world: World, field: str
):
    await drop_fields(world, field)
    world.start_operator(rules=[watch_lag("rayclusters.ray.io", 3.0)])
    await world.create_cluster()
    await world.eventually(world.is_ready)
    before = status_writes(world)
    await world.settle(300)
    assert status_writes(world) - before <= 2


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


async def test_a_field_that_the_definition_lacks_explains_nothing_even_after_an_edit(world: World):
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, slices())
    await world.eventually(world.is_ready)
    await drop_fields(world, "spec.workerGroupSpecs.numOfHosts")
    await world.eventually(lambda: is_incomplete(world))
    await world.scale(3)
    await world.eventually(lambda: holds_deletions(world))
    await world.settle(5)
    assert (len(world.journal.created), world.journal.marked) == (9, set())
    incomplete = await world.condition("DefinitionComplete")
    assert (incomplete["status"], incomplete["reason"]) == ("False", "FieldsMissing")
    assert "lacks spec.workerGroupSpecs.numOfHosts:" in incomplete["message"]
    assert "manta crds | kubectl apply" in incomplete["message"]

    await restore_definition(world)
    await world.eventually(lambda: is_well_when_applied(world, slices()), pause=1.0)
    assert world.journal.marked == set()
    await world.eventually(lambda: is_complete(world))


@pytest.mark.embedded_only
async def test_what_was_listed_while_a_definition_lacked_the_groups_deletes_no_worker(world: World):
    """The next operator lists, the definition is put back, and only then is its schema read."""
    first = world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, example_cluster(replicas=10))
    await world.eventually(world.is_ready)
    await first.stop()
    edit = {"spec": {"headGroupSpec": {"rayStartParams": {"num-cpus": "0"}}}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", edit)
    await drop_fields(world, "spec.workerGroupSpecs")
    late = watch_lag("pods", 5.0)  # the schema is read when all caches are complete
    world.start_operator(rules=[late])
    await world.settle(2)
    await restore_definition(world)
    await world.settle(60)
    assert world.journal.marked == set()
    assert (await world.condition("HeadPodReady"))["observedGeneration"] == 2


@pytest.mark.embedded_only
async def test_without_openapi_the_number_of_workers_is_guarded_and_this_is_said(world: World):
    first = world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, slices())
    await world.eventually(world.is_ready)
    await first.stop()
    await drop_fields(world, "spec.workerGroupSpecs.numOfHosts")
    world.start_operator(transport=WithoutOpenApi(world.transport))
    await world.eventually(lambda: holds_deletions(world))
    await world.settle(5)
    assert world.journal.marked == set()
    unknown = await world.condition("DefinitionComplete")
    assert (unknown["status"], unknown["reason"]) == ("Unknown", "OpenAPIUnreadable")


class WithoutOpenApi:
    """A transport to a server whose OpenAPI documents nobody may read."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request) -> RawResponse:
        if request.path.startswith("/openapi"):
            request = replace(request, path="/api/v1/namespaces/none-of-this-name")
        return await self._inner.request(request)


async def holds_deletions(world: World) -> bool:
    return bool((await world.condition("DeletionHeld"))["status"])


async def is_ready_again(world: World) -> bool:
    return not await holds_deletions(world) and await world.is_ready()


async def is_incomplete(world: World) -> bool:
    return not await is_complete(world)


async def is_complete(world: World) -> bool:
    return not (await world.condition("DefinitionComplete"))["status"]


async def is_well_when_applied(world: World, manifest: dict[str, Any]) -> bool:
    """Apply until it holds: a real server serves the restored definition a moment later."""
    spec = {"spec": manifest["spec"]}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", spec)
    ready = await world.condition("Ready")
    return ready["status"] == "True" and not await holds_deletions(world)


def status_writes(world: World) -> int:
    """Status writes of the operator so far."""
    assert world.server is not None
    return sum(
        count
        for (agent, verb, resource), count in world.server.requests_by_user_agent.items()
        if agent.startswith(OPERATOR) and (verb, resource) == ("patch", STATUS)
    )


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


@pytest.mark.embedded_only
async def test_only_an_edit_asks_for_a_new_cluster_not_a_definition_that_drops_more_or_less(
    world: World,
    services: Services,
):
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=0)
    manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["serviceType"] = "NodePort"
    await services.deployed(manifest)
    await world.settle(10)
    cluster = await services.active()
    field = "spec.rayClusterConfig.headGroupSpec.serviceType"
    await drop_fields(world, field, name=RAYSERVICES_CRD)
    await world.settle(60)
    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(services.serve_of(cluster).puts) == 2, seconds=60)
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(60)
    assert await services.clusters() == [await services.active()] == [cluster]
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    await services.taken_over(cluster)


@pytest.mark.embedded_only
async def test_a_suspended_service_is_not_resumed_by_a_definition_without_suspend(
    world: World, services: Services
):
    services.start_operator()
    await services.create(service_manifest(suspend=True))
    await world.settle(20)
    await drop_fields(world, "spec.suspend", name=RAYSERVICES_CRD)
    await world.settle(60)
    assert await services.clusters() == []
    await restore_definition(world, name=RAYSERVICES_CRD)
    await world.settle(60)
    assert await services.clusters() == []
    await services.patch(suspend=False)
    await services.serving()


@pytest.mark.embedded_only
async def test_a_deleted_service_goes_whatever_its_definition_lacks(
    world: World, services: Services
):
    services.start_operator()
    await services.deployed()
    await drop_fields(world, "status.activeServiceStatus", name=RAYSERVICES_CRD)
    await world.settle(20)
    await world.user.delete(RAYSERVICES, world.namespace, "svc")
    await world.eventually(lambda: not world.journal.present, seconds=60)
    assert await services.clusters() == []
