"""Edits of what must not change, on an API server: refused without a webhook, and healed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from controller.apimachinery.custom_object import conditions_of
from controller.command.planning.planner import Planner
from controller.kaito.api.definitions import inference_set_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kaito.workspace.watches import REVISIONS
from controller.kube.resources import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller.testing.journal import JournalEntry
from tests.integration.harness import install_crds
from tests.integration.inferencesets import set_manifest
from tests.integration.sweeps import Kill, Sweep, at_each_kill
from tests.integration.test_workspace_crashes import WATCHED, late, one_operator
from tests.integration.workspaces import INSTANCE as MACHINE
from tests.integration.workspaces import Workspaces, manifest
from tests.kaito.support import inference

embedded_only = pytest.mark.embedded_only

OTHER_MACHINE = "Standard_NC48ads_A100_v4"
REFUSED = ("False", "InvalidWorkspaceSpec")
ADAPTER = {"source": {"name": "a", "image": "example.com/adapter:1"}}


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


async def has_a_server(spaces: Workspaces) -> None:
    await spaces.create()
    await spaces.has_nodes()
    await spaces.world.settle(5)


@embedded_only
async def test_a_refused_edit_changes_nothing_until_it_is_taken_back_also_if_the_operator_is_killed(
    spaces: Workspaces,
):
    operator = spaces.start_operator()
    await has_a_server(spaces)
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


async def test_a_refused_edit_is_taken_back_or_its_workspace_is_deleted(spaces: Workspaces):
    spaces.start_operator()
    await has_a_server(spaces)
    before = await state(spaces)
    await edit(spaces, resource={"instanceType": OTHER_MACHINE})
    await spaces.reaches("ResourceReady", *REFUSED)
    assert await state(spaces) == before
    await edit(spaces, resource={"instanceType": MACHINE})
    await spaces.has_nodes()
    assert await state(spaces) == before
    await edit(spaces, inference={"preset": {"name": "phi-4"}})
    await spaces.reaches("ResourceReady", *REFUSED)
    await spaces.delete()
    await spaces.world.eventually(spaces.is_gone)
    assert await spaces.claims() == []


async def test_the_plan_of_such_an_edit_is_its_refusal(spaces: Workspaces):
    spaces.start_operator()
    await has_a_server(spaces)
    world = spaces.world
    planner = Planner(world.user, [WorkspaceKind()], world.wall())
    raw = manifest()
    assert (await planner.for_manifest(raw, world.namespace)).problem == ""
    raw["resource"]["instanceType"] = OTHER_MACHINE
    plan = await planner.for_manifest(raw, world.namespace)
    assert "instanceType cannot be changed once set" in plan.problem
    assert "restore the fields from ControllerRevision phi-" in plan.problem
    assert [each for each in plan.items if each.kind != "Workspace"] == []


@embedded_only
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


WRITTEN = {*WATCHED, str(CONTROLLER_REVISIONS), str(STATEFUL_SETS)}
Outcome = tuple[int, int, bool, int]
"""Claims that were created, those that were deleted, whether the edit was refused, revisions."""

EXPECTED: Outcome = (1, 0, True, 2)


async def allowed_and_refused_edits(spaces: Workspaces) -> Outcome:
    """An edit that may be, at once one that must not be, and the second is taken back."""
    await spaces.create()
    await spaces.has_nodes(seconds=900)
    await spaces.world.settle(60)
    await edit(spaces, inference={"adapters": [ADAPTER]})
    await asyncio.sleep(0.3)
    await edit(spaces, resource={"instanceType": OTHER_MACHINE})
    await spaces.world.settle(300)
    refused = (await spaces.condition("ResourceReady"))[:2] == REFUSED
    await edit(spaces, resource={"instanceType": MACHINE})
    await spaces.world.settle(300)
    await spaces.has_nodes(seconds=900)
    revisions = (await spaces.world.user.list(REVISIONS, spaces.world.namespace)).items
    referee = spaces.referee
    return referee.created["phi"], referee.deleted["phi"], refused, len(revisions)


def is_ours(entry: JournalEntry) -> bool:
    return entry.attributes.writes and entry.attributes.resource in WRITTEN


@at_each_kill
@pytest.mark.slow
@embedded_only
@pytest.mark.usefixtures("silence")
async def test_killed_at_any_single_write_an_edit_is_judged_by_what_is_in_force(fault: Kill):
    sweep = Sweep[Outcome]()
    async with one_operator() as (spaces, operator):
        again = partial(spaces.start_operator, rules=late())
        sweep.disturb(fault, spaces.world, operator, ours=is_ours, again=again)
        await sweep.comes_to(EXPECTED, allowed_and_refused_edits(spaces), more_than=10)
