"""Edits of what must not change, on an API server: refused without a webhook, and healed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.apimachinery.custom_object import conditions_of
from controller.command.planning.planner import Planner
from controller.kaito.api import labels
from controller.kaito.api.definitions.crds import inference_set_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset import InferenceSetKind
from controller.kaito.workspace import WorkspaceKind
from controller.kaito.workspace.watches import REVISIONS
from tests.integration.harness import install_crds
from tests.integration.inferencesets import set_manifest
from tests.integration.workspaces import INSTANCE as MACHINE
from tests.integration.workspaces import Workspaces, manifest, opened, served
from tests.kaito.support import inference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only

OTHER_MACHINE = "Standard_NC48ads_A100_v4"
REFUSED = ("False", "InvalidWorkspaceSpec")


@pytest.fixture
async def spaces(world: World) -> AsyncIterator[Workspaces]:
    async with opened(world) as workspaces:
        with served(world):
            yield workspaces


async def edit(spaces: Workspaces, **patch: Any) -> None:
    await spaces.world.user.merge_patch(WORKSPACES, spaces.world.namespace, "phi", patch)


async def state(spaces: Workspaces) -> tuple[Any, ...]:
    """What must stay: claims, server, revisions and the annotations of the Workspace."""
    revisions = (await spaces.world.user.list(REVISIONS, spaces.world.namespace)).items
    annotations = (await spaces.workspace()).metadata.annotations or {}
    return (
        [each.metadata.uid for each in await spaces.claims()],
        await spaces.server(),
        {each.metadata.name: each.revision for each in revisions},
        {key: text for key, text in annotations.items() if "last-applied" not in key},
    )


async def is_serving(spaces: Workspaces) -> None:
    await spaces.create()
    await spaces.reaches("InferenceReady", "True", "WorkspaceInferenceStatusSuccess")
    await spaces.world.settle(30)


async def test_a_refused_edit_changes_nothing_until_it_is_taken_back_also_if_the_operator_is_killed(
    spaces: Workspaces,
):
    operator = spaces.start_operator()
    await is_serving(spaces)
    before = await state(spaces)
    await operator.kill()
    await edit(spaces, resource={"instanceType": OTHER_MACHINE})
    operator = spaces.start_operator()
    await spaces.reaches("ResourceReady", *REFUSED)
    await spaces.world.settle(30)
    await operator.kill()
    operator = spaces.start_operator()
    await spaces.world.settle(600)
    assert (await spaces.condition("ResourceReady"))[:2] == REFUSED
    assert await state(spaces) == before
    reasons = [reason for reason, _ in await spaces.world.events_about("Workspace", "phi")]
    assert reasons.count("InvalidWorkspaceSpec") == 1

    await operator.kill()
    await edit(spaces, resource={"instanceType": MACHINE})
    spaces.start_operator()
    await spaces.has_nodes()
    await spaces.world.settle(60)
    assert await state(spaces) == before
    assert (spaces.referee.created["phi"], spaces.referee.deleted["phi"]) == (1, 0)
    await edit(spaces, inference={"config": "none"})
    await spaces.world.settle(60)
    assert len((await state(spaces))[2]) == 2


async def test_a_workspace_with_a_refused_edit_is_deleted_with_its_claims(spaces: Workspaces):
    spaces.start_operator()
    await is_serving(spaces)
    await edit(spaces, resource={"instanceType": OTHER_MACHINE})
    await spaces.reaches("ResourceReady", *REFUSED)
    await spaces.delete()
    await spaces.world.eventually(spaces.is_gone)
    assert await spaces.claims() == []


async def test_an_edit_that_overwrites_the_annotations_too_deletes_no_claim(spaces: Workspaces):
    operator = spaces.start_operator()
    await is_serving(spaces)
    await operator.kill()
    marks = (labels.HASH, labels.REVISION, labels.NODE_CLAIMS)
    await edit(
        spaces,
        metadata={"annotations": dict.fromkeys(marks)},
        resource={"instanceType": OTHER_MACHINE},
    )
    spaces.start_operator()
    await spaces.reaches("ResourceReady", *REFUSED)
    await spaces.world.settle(60)
    assert (spaces.referee.created["phi"], spaces.referee.deleted["phi"]) == (1, 0)


async def test_the_plan_of_such_an_edit_is_its_refusal(spaces: Workspaces):
    spaces.start_operator()
    await is_serving(spaces)
    world = spaces.world
    planner = Planner(world.user, [WorkspaceKind()], world.wall())
    raw = manifest()
    assert (await planner.for_manifest(raw, world.namespace)).problem == ""
    raw["resource"]["instanceType"] = OTHER_MACHINE
    plan = await planner.for_manifest(raw, world.namespace)
    assert "instanceType cannot be changed once set" in plan.problem
    assert "put back what stands in ControllerRevision phi-" in plan.problem
    assert [each for each in plan.items if each.kind != "Workspace"] == []


async def test_an_edit_of_an_inference_set_is_refused_for_none_of_its_workspaces(
    spaces: Workspaces,
):
    world = spaces.world
    await install_crds(world, inference_set_definition())
    world.start_operator(kinds=[WorkspaceKind(), InferenceSetKind()])
    await world.user.create(INFERENCE_SETS, world.namespace, set_manifest(replicas=1))
    await world.settle(60)
    template = {"resource": {"instanceType": OTHER_MACHINE}, "inference": inference("phi-4")}
    patch = {"spec": {"replicas": 2, "template": template}}
    await world.user.merge_patch(INFERENCE_SETS, world.namespace, "models", patch)
    await world.settle(60)
    found = (await world.user.list(WORKSPACES, world.namespace)).items
    assert sorted(each.resource["instanceType"] for each in found) == [MACHINE, OTHER_MACHINE]
    reasons = {each["reason"] for one in found for each in conditions_of(one)}
    assert "workspaceResourceStatusSuccess" in reasons
    assert "InvalidWorkspaceSpec" not in reasons
