"""Pods of a Workspace's server that fail, on an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from controller.devcluster.nodes import ANNOTATION_PREFIX
from controller.kaito.api import labels
from controller.kube.errors import AlreadyExists
from controller.kube.objects import StatefulSet
from controller.kube.resources import PODS
from tests.integration.harness import World
from tests.integration.workspaces import Workspaces, opened

PENDING = "WorkspaceInferenceStatusPending"


@pytest.fixture
async def spaces(world: World) -> AsyncIterator[Workspaces]:
    async with opened(world) as workspaces:
        yield workspaces


def pod_of(server: StatefulSet, *gates: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
    owner |= {"name": server.metadata.name, "uid": server.metadata.uid}
    labelled = {labels.WORKSPACE: server.metadata.name}
    return {
        "metadata": {"name": "phi-0", "labels": labelled, "ownerReferences": [owner]},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "phi", "image": "example.com/server:1"}],
        },
    }


async def kubelet_says(spaces: Workspaces, **state: Any) -> None:
    container = {"name": "phi", "ready": False, "image": "x", "imageID": "x", **state}
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    client, namespace = spaces.world.user, spaces.world.namespace
    await client.merge_patch(PODS, namespace, "phi-0", status, subresource="status")


@pytest.mark.embedded_only
async def test_a_failing_pod_is_the_cause_and_its_crashes_are_not_written_one_by_one(
    spaces: Workspaces,
):
    operator = spaces.start_operator()
    await spaces.create()
    await spaces.reaches("InferenceReady", "False", PENDING)
    await spaces.has_nodes()
    await spaces.world.settle(5)
    client, namespace = spaces.world.user, spaces.world.namespace
    await client.create(PODS, namespace, pod_of(await spaces.server(), "example.com/by-hand"))
    end = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    await kubelet_says(spaces, restartCount=1, state=waits, lastState={"terminated": end})
    await spaces.reaches("InferenceReady", "False", "ContainerCrashLoopBackOff")
    await spaces.world.settle(5)
    begun = len(operator.transport.journal.entries)
    for crash in range(2, 12):
        running = {"running": {"startedAt": f"2026-01-01T00:{crash:02}:00Z"}}
        end["finishedAt"] = f"2026-01-01T00:{crash:02}:30Z"
        for state in (running, {"terminated": end}, waits):
            last = {"lastState": {"terminated": end}}
            await kubelet_says(spaces, restartCount=crash, state=state, **last)
            await spaces.world.settle(2)
    sent = [each.attributes.verb for each in operator.transport.journal.entries[begun:]]
    assert [verb for verb in sent if verb not in {"get", "list", "watch"}] == []

    await client.delete(PODS, namespace, "phi-0")
    await spaces.reaches("InferenceReady", "False", PENDING)


async def test_a_server_whose_pod_crashes_says_so(spaces: Workspaces):
    """On a real API server, the pod is that of the real controller of StatefulSets."""
    spaces.start_operator()
    await spaces.create()
    await spaces.has_nodes()
    await spaces.world.settle(5)
    client, namespace = spaces.world.user, spaces.world.namespace
    with suppress(AlreadyExists):
        body = pod_of(await spaces.server())
        await client.create(PODS, namespace, body)
    pod = await client.get(PODS, namespace, "phi-0")
    assert pod.metadata.controller is not None
    assert pod.metadata.controller.kind == "StatefulSet"
    outcome = {f"{ANNOTATION_PREFIX}outcome": "crash", f"{ANNOTATION_PREFIX}exit-code": "3"}
    await client.merge_patch(PODS, namespace, "phi-0", {"metadata": {"annotations": outcome}})
    await spaces.reaches("InferenceReady", "False", "ContainerCrashLoopBackOff")
    message = (await spaces.condition("InferenceReady"))[2]
    assert message.startswith("pod phi-0: container phi ended with exit code 3")
