"""Another writer that changes back what the operator repairs costs little, and is named."""

from __future__ import annotations

import asyncio
import copy
from contextlib import suppress
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.patches import apply_merge_patch
from controller.devcluster.apiserver import StoredEvent
from controller.kube.errors import KubeError
from controller.kube.resources import ROLES, SERVICES, Resource
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import RunningOperator, World
from tests.integration.test_failing_keys import KINDS, begin
from tests.integration.test_unconfirmed_writes import warnings

SERVICE = "example-head-svc"
RIVAL = "service-mesh"

pytestmark = pytest.mark.embedded_only


def fight(world: World, resource: Resource[Any], name: str, change: dict[str, Any]) -> None:
    """Have another controller set these fields again as soon as they differ."""
    rival = world.client(f"{RIVAL}/1.0")

    async def insist() -> None:
        while True:
            try:
                present = await rival.get_raw(resource, world.namespace, name)
                if apply_merge_patch(copy.deepcopy(present), change) != present:
                    await rival.merge_patch(resource, world.namespace, name, change)
            except KubeError:
                pass
            await asyncio.sleep(0.2)

    world.background(insist())


async def track_managers(world: World, resource: Resource[Any], name: str) -> None:
    """Apply an annotation, after which the embedded server too keeps `managedFields`."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": {"a": "b"}},
    }
    await world.user.request_json(
        "PATCH",
        resource.path(world.namespace, name),
        body=body,
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "kubectl"},
    )


def writes(operator: RunningOperator, resource: str, name: str, since: int) -> int:
    return sum(
        entry.attributes.writes
        and entry.attributes.resource == resource
        and entry.attributes.name == name
        and entry.attributes.subresource != "status"
        for entry in operator.transport.journal.entries[since:]
    )


async def contested(world: World) -> str:
    conditions = (await world.cluster()).status.get("conditions", [])
    return str((find_condition(conditions, "FieldsContested") or {}).get("message", ""))


async def ready_reason(world: World) -> str:
    conditions = (await world.cluster()).status["conditions"]
    return str((find_condition(conditions, "Ready") or {})["reason"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resource", "plural", "name", "change", "field"),
    [
        (
            SERVICES,
            "services",
            SERVICE,
            {"spec": {"selector": {"ray.io/node-type": "worker"}}},
            "spec.selector.ray.io/node-type",
        ),
        (
            SERVICES,
            "services",
            SERVICE,
            {"metadata": {"labels": {"ray.io/cluster": "theirs"}}},
            "metadata.labels.ray.io/cluster",
        ),
        (ROLES, "roles.rbac.authorization.k8s.io", "example", {"rules": []}, "rules"),
    ],
)
async def test_repairs_back_off_and_name_the_other_writer(  # noqa: PLR0917
    world: World, resource: Resource[Any], plural: str, name: str, change: Any, field: str
):
    operator = await begin(world, "cluster", enableInTreeAutoscaling=True)
    await world.eventually(world.is_ready)
    await track_managers(world, resource, name)
    since = len(operator.transport.journal.entries)
    fight(world, resource, name, change)
    await world.settle(200)
    assert 3 <= writes(operator, plural, name, since) <= 12
    said = await contested(world)
    assert f"another writer ({RIVAL}) keeps changing {field} of {resource.kind} {name}" in said
    told = [note for reason, note in await warnings(world, "RayCluster") if "Contested" in reason]
    assert len(told) == 1
    assert RIVAL in told[0]
    assert await world.is_ready()


@pytest.mark.slow
async def test_what_another_writer_deletes_is_created_with_back_off_and_it_is_said(world: World):
    operator = await begin(world, "cluster")
    await world.eventually(world.is_ready)
    rival = world.client(f"{RIVAL}/1.0")

    async def insist() -> None:
        while True:
            with suppress(KubeError):
                await rival.delete(SERVICES, world.namespace, SERVICE)
            await asyncio.sleep(0.2)

    since, before = len(operator.transport.journal.entries), set(world._background)
    world.background(insist())
    await world.settle(200)
    assert 3 <= writes(operator, "services", SERVICE, since) <= 12
    assert f"another writer keeps deleting Service {SERVICE}" in await contested(world)
    assert await ready_reason(world) == "RepeatedlyDeleted"
    told = [note for reason, note in await warnings(world, "RayCluster") if "Contested" in reason]
    assert len(told) == 1
    for task in world._background - before:
        task.cancel()
    await world.settle(62)
    assert await ready_reason(world) == "AllPodsReady"
    await world.settle(60)
    await rival.delete(SERVICES, world.namespace, SERVICE)
    await world.settle(2)
    assert await rival.get_raw(SERVICES, world.namespace, SERVICE), "it is not delayed any more"


@pytest.mark.slow
async def test_a_finalizer_that_is_taken_off_is_added_with_back_off(world: World):
    operator = await begin(
        world,
        "cluster",
        gcsFaultToleranceOptions={"redisAddress": "redis:6379"},
    )
    await world.eventually(world.is_ready)
    await track_managers(world, RAYCLUSTERS, "example")
    since = len(operator.transport.journal.entries)
    fight(world, RAYCLUSTERS, "example", {"metadata": {"finalizers": None}})
    await world.settle(200)
    assert 3 <= writes(operator, "rayclusters.ray.io", "example", since) <= 12
    said = await contested(world)
    assert "keeps changing metadata.finalizers of RayCluster example" in said


def undo(world: World, resource: Resource[Any], change: dict[str, Any]) -> None:
    """Have another controller undo each write at once, before the operator has seen its own."""
    assert world.server is not None
    rival = world.client(f"{RIVAL}/1.0")

    async def react() -> None:
        with suppress(KubeError):
            await rival.merge_patch(resource, world.namespace, "example", change)

    def on_write(event: StoredEvent) -> None:
        found = event.current.object
        differs = apply_merge_patch(copy.deepcopy(found), change) != found
        if event.table == str(resource) and event.type != "DELETED" and differs:
            world.background(react())

    world.server.on_write.append(on_write)


NO_FINALIZERS, NO_ANNOTATIONS = (
    {"metadata": {each: None}} for each in ("finalizers", "annotations")
)


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("job", NO_FINALIZERS, "metadata.finalizers"),
        ("service", NO_FINALIZERS, "metadata.finalizers"),
        ("workspace", NO_ANNOTATIONS, "metadata.annotations."),
    ],
)
async def test_what_is_undone_on_an_object_of_any_kind_is_repaired_with_back_off_and_it_is_said(
    world: World, kind: str, change: dict[str, Any], field: str
):
    resource = KINDS[kind].resource
    undo(world, resource, change)
    operator = await begin(world, kind)
    await world.settle(200)
    assert 3 <= writes(operator, str(resource), "example", 0) <= 15
    obj = await world.user.get(resource, world.namespace, "example")
    found = find_condition(obj.status.get("conditions", ()), "FieldsContested") or {}
    assert f"another writer keeps changing {field}" in found.get("message", "")


async def test_when_the_other_writer_stops_the_field_is_repaired_and_nothing_is_said(world: World):
    await begin(world, "cluster")
    await world.eventually(world.is_ready)
    before = set(world._background)
    fight(world, SERVICES, SERVICE, {"spec": {"selector": {"app": "mine"}}})
    await world.settle(60)
    assert await contested(world)
    for task in world._background - before:
        task.cancel()
    await world.settle(70)
    service = await world.user.get_raw(SERVICES, world.namespace, SERVICE)
    assert "app" not in service["spec"]["selector"]
    await world.settle(400)
    assert not await contested(world)
