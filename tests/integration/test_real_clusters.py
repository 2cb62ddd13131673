"""What users of real clusters do, and what real networks do: kubectl, server-side apply, losses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from typing import Any

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import LostRequest, LostResponse, Rule, watch_gone
from tests.integration.harness import REAL_KUBECONFIG, World, example_cluster
from tests.lab.programs import path_of

pytestmark = [pytest.mark.vital, pytest.mark.timeout(240)]

COMMANDS = sorted({str(path_of("kubectl")), str(shutil.which("kubectl"))})
CREATE = frozenset({"create"})


class Kubectl:
    def __init__(self, command: str, world: World) -> None:
        self._command = (command, f"--kubeconfig={REAL_KUBECONFIG}", "-n", world.namespace)

    async def __call__(self, *arguments: str, given: Any = None, fails: bool = False) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(json.dumps(given).encode() if given else None)
        assert bool(process.returncode) is fails, output.decode()
        return output.decode()


@pytest.mark.real_only
@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.split("/")[-2])
async def test_kubectl_applies_waits_for_shows_and_deletes_a_cluster(world: World, command: str):
    if not os.access(command, os.X_OK):
        pytest.skip(f"SKIP: there is no {command}")
    kubectl = Kubectl(command, world)
    world.start_operator()
    body = example_cluster(replicas=1)
    assert "created" in await kubectl("apply", "-f", "-", given=body)
    await kubectl("wait", "--for=condition=Ready", "raycluster/example", "--timeout=90s")
    header, row = (await kubectl("get", "raycluster", "example")).splitlines()
    assert "AVAILABLE WORKERS" in header
    assert row.split()[:3] == ["example", "1", "1"]

    body["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    assert "configured" in await kubectl("apply", "-f", "-", given=body)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3)
    assert "Status:" in await kubectl("describe", "raycluster", "example")
    assert "RayClusterReady" in await kubectl("events", "--for=raycluster/example")
    assert "is invalid" in await kubectl(
        *("patch", "raycluster", "example", "--type=merge", "-p"),
        '{"spec":{"headGroupSpec":null}}',
        fails=True,
    )
    await kubectl("delete", "raycluster", "example", "--cascade=foreground", "--timeout=90s")
    await world.eventually(lambda: not world.journal.present)
    assert len(world.journal.created) == 4


async def apply(
    world: World, manager: str, body: dict[str, Any], *, force: bool = False
) -> dict[str, Any]:
    return await world.user.request_json(
        "PATCH",
        RAYCLUSTERS.path(world.namespace, body["metadata"]["name"]),
        body=body,
        query={"fieldManager": manager, "force": str(force).lower()},
        content_type="application/apply-patch+yaml",
    )


async def test_a_cluster_that_is_applied_by_the_server_keeps_what_each_manager_owns(world: World):
    world.start_operator()
    body = example_cluster(replicas=2)
    await apply(world, "argocd", body)
    await world.eventually(world.is_ready)
    labels = {"metadata": {"name": "example", "labels": {"team": "a"}}}
    await apply(world, "people", {key: body[key] for key in ("apiVersion", "kind")} | labels)
    body["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    answer = await apply(world, "argocd", body)
    assert answer["metadata"]["labels"]["team"] == "a"
    await world.eventually(lambda: len(world.journal.ready_workers()) == 3)
    owners = {
        entry["manager"]
        for entry in (await apply(world, "argocd", body))["metadata"]["managedFields"]
        if "f:spec" in entry["fieldsV1"]
    }
    assert owners == {"argocd"}, "the operator owns nothing of what its users have written"
    assert len(world.journal.created) == 4


async def test_with_lost_answers_lost_requests_and_ended_watches_just_the_difference_is_made(
    world: World,
):
    lost = [Rule(LostResponse(), "pods", CREATE, skip=number, times=1) for number in (1, 4, 7)]
    never = [Rule(LostRequest(), "pods", CREATE, skip=number, times=1) for number in (2, 8)]
    gone = [watch_gone("pods", event) for event in (3, 20)]
    world.start_operator(rules=[*lost, *never, *gone])
    await world.create_cluster(replicas=6)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 6, seconds=150)
    await world.scale(2)
    await world.eventually(lambda: len(world.journal.present) == 3, seconds=90)
    await world.scale(5)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 5, seconds=150)
    await world.settle(5)
    assert world.journal.workers_created() == 9
    assert world.journal.workers_deleted() == 4
    assert world.journal.most_live_heads == 1


async def test_a_cluster_that_somebody_edits_all_the_while_is_scaled_to_the_last_number(
    world: World,
):
    world.start_operator()
    await world.create_cluster(replicas=1)
    for number in range(60):
        patch = {"metadata": {"annotations": {"n": str(number)}}}
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", patch)
        if number == 20:
            await world.scale(4)
        await world.settle(0.1)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 4)
    await world.eventually(world.is_ready)
    found = await world.cluster()
    assert found.status["observedGeneration"] == found.metadata.generation
    assert world.journal.workers_created() == 4
