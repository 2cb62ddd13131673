"""`manta rollout` with an operator that keeps revisions, on whichever API server there is."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from controller.command.connection import CommandFailed
from controller.command.rollout import RolloutOptions, rollout
from controller.kube.resources import CONTROLLER_REVISIONS
from controller.ray.api import RAYCLUSTERS
from tests.integration.definitions import drop_fields, restore_definition
from tests.integration.harness import World, example_cluster

pytestmark = pytest.mark.slow

IMAGES = ("rayproject/ray:2.60.0", "rayproject/ray:2.60.0-cpu")


def edition(image: str = IMAGES[0], **spec: Any) -> dict[str, Any]:
    raw = example_cluster()
    raw["spec"] |= {"upgradeStrategy": {"type": "RollingUpdate"}} | spec
    for group in raw["spec"]["workerGroupSpecs"]:
        group["template"]["spec"]["containers"][0]["image"] = image
    return raw


async def run(world: World, action: Any, target: str = "raycluster/example", **more: Any) -> str:
    """What the command prints; a status of 1 is an error of its own."""
    stream = io.StringIO()
    options = RolloutOptions(action, [target], **more)
    status = await rollout(world.user, world.namespace, options, stream)
    assert status == 0, stream.getvalue()
    return stream.getvalue()


async def image(world: World) -> str:
    raw = await world.user.get_raw(RAYCLUSTERS, world.namespace, "example")
    return raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"]


async def apply(world: World, manifest: dict[str, Any]) -> None:
    """Store the manifest's specification and wait until the operator has seen it."""
    raw = await world.user.get_raw(RAYCLUSTERS, world.namespace, "example")
    await world.user.replace(
        RAYCLUSTERS, world.namespace, "example", raw | {"spec": manifest["spec"]}
    )
    await world.settle(5)


async def started(world: World, manifest: dict[str, Any] | None = None) -> None:
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest or edition())
    await world.eventually(world.is_ready)


async def numbers(world: World) -> list[int]:
    listed = await world.user.list(CONTROLLER_REVISIONS, world.namespace)
    return sorted(each.revision for each in listed.items)


async def test_each_set_of_templates_is_kept_once_and_brought_back_by_undo(world: World):
    await started(world)
    assert await numbers(world) == [1]
    await apply(world, edition(IMAGES[1]))
    assert await numbers(world) == [1, 2]
    assert await run(world, "undo") == "raycluster.ray.io/example rolled back to revision 1\n"
    assert await image(world) == IMAGES[0]
    await world.settle(5)
    assert await numbers(world) == [2, 3]
    again = await run(world, "undo", revision=3)
    assert again.endswith("skipped rollback (current template already matches revision 3)\n")


async def test_the_history_names_images_cause_and_the_present_revision(world: World):
    first = edition()
    first["metadata"]["annotations"] = {"kubernetes.io/change-cause": "the first one"}
    await started(world, first)
    await apply(world, edition(IMAGES[1]))
    heading, columns, one, two = (await run(world, "history")).splitlines()
    assert heading == "raycluster.ray.io/example"
    assert columns.split() == ["REVISION", "CURRENT", "CREATED", "IMAGES", "CHANGE-CAUSE"]
    assert one.startswith("1 ")
    assert one.endswith("the first one")
    assert two.split()[:2] == ["2", "*"]
    assert IMAGES[1] in two
    told = json.loads(await run(world, "history", output="json"))
    assert [each["revision"] for each in told["revisions"]] == [1, 2]
    assert f"image: {IMAGES[1]}" in await run(world, "history", revision=2)
    with pytest.raises(CommandFailed, match="has no revision 9; there are 1, 2"):
        await run(world, "history", revision=9)


async def test_an_undo_is_shown_before_it_is_done(world: World):
    await started(world)
    await apply(world, edition(IMAGES[1]))
    shown = await run(world, "undo", dry_run=True)
    assert f'"{IMAGES[1]}" -> "{IMAGES[0]}"' in shown
    assert await image(world) == IMAGES[1]


async def test_an_undo_leaves_numbers_and_other_groups_alone(
    world: World, capsys: pytest.CaptureFixture[str]
):
    await started(world)
    changed = edition(IMAGES[1])
    changed["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    other = changed["spec"]["workerGroupSpecs"][0] | {"groupName": "added", "replicas": 0}
    changed["spec"]["workerGroupSpecs"].append(other)
    await apply(world, changed)
    await run(world, "undo")
    raw = await world.user.get_raw(RAYCLUSTERS, world.namespace, "example")
    first, second = raw["spec"]["workerGroupSpecs"]
    assert (first["replicas"], await image(world)) == (1, IMAGES[0])
    assert second["template"]["spec"]["containers"][0]["image"] == IMAGES[1]
    assert "group added was added since and stays as it is" in capsys.readouterr().err


async def test_without_an_earlier_revision_nothing_is_undone(world: World):
    await started(world)
    with pytest.raises(CommandFailed, match="has only one revision"):
        await run(world, "undo")
    with pytest.raises(CommandFailed, match="does not exist in namespace"):
        await run(world, "history", "raycluster/missing")


async def test_without_an_operator_or_rolling_updates_nothing_is_undone(world: World):
    await world.user.create(RAYCLUSTERS, world.namespace, edition())
    with pytest.raises(CommandFailed, match="has no history"):
        await run(world, "undo")
    await apply(world, edition(upgradeStrategy={"type": "Recreate"}))
    for action in ("undo", "status", "pause"):
        with pytest.raises(CommandFailed, match="is Recreate, so that there is no rolling update"):
            await run(world, action)


async def test_without_a_history_one_sentence_says_why_and_what_to_do(world: World):
    await world.user.create(RAYCLUSTERS, world.namespace, edition(upgradeStrategy={}))
    (said,) = (await run(world, "history")).splitlines()
    assert said.startswith(
        "raycluster.ray.io/example has no history: spec.upgradeStrategy.type is not set"
    )
    assert "set it to RollingUpdate" in said
    assert json.loads(await run(world, "history", output="json"))["revisions"] == []
    await apply(world, edition())
    assert "begins when the operator sees the strategy" in await run(world, "history")


async def test_a_definition_that_drops_the_pause_is_said(world: World):
    await drop_fields(world, "spec.upgradeStrategy.rollingUpdate")
    try:
        await world.user.create(RAYCLUSTERS, world.namespace, edition())
        with pytest.raises(CommandFailed, match="the installed definition drops the field"):
            await run(world, "pause")
    finally:
        await restore_definition(world)


async def test_a_status_tells_what_changes_and_fails_with_the_rollout(world: World):
    made = await world.user.create(RAYCLUSTERS, world.namespace, edition())

    async def says(reason: str, message: str) -> None:
        condition = {
            "type": "Upgrading",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-08-20T10:00:00Z",
        }
        status = {"observedGeneration": made.metadata.generation, "conditions": [condition]}
        await world.user.merge_patch(
            RAYCLUSTERS, world.namespace, "example", {"status": status}, subresource="status"
        )

    await says("Rolling", "1 of 2")
    stream = io.StringIO()
    options = RolloutOptions("status", ["raycluster", "example"])
    following = asyncio.ensure_future(rollout(world.user, world.namespace, options, stream))
    await world.settle(5)
    await says("ProgressDeadlineExceeded", "w-1 is not ready")
    assert await following == 1
    assert stream.getvalue().splitlines() == [
        'Waiting for raycluster "example" rollout to finish: 1 of 2...',
        'raycluster "example" cannot be rolled out: w-1 is not ready',
    ]


async def test_a_change_that_comes_between_is_not_lost(world: World):
    await world.user.create(RAYCLUSTERS, world.namespace, edition())
    await asyncio.gather(
        run(world, "pause"),
        world.user.merge_patch(
            RAYCLUSTERS, world.namespace, "example", {"spec": {"rayVersion": "2.59.0"}}
        ),
    )
    raw = await world.user.get_raw(RAYCLUSTERS, world.namespace, "example")
    assert raw["spec"]["rayVersion"] == "2.59.0"
    assert raw["spec"]["upgradeStrategy"]["rollingUpdate"]["paused"] is True
