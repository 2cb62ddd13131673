"""The benchmark's result, read from the log of a model server on an API server, with faults."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.kaito.api import labels
from controller.kaito.lookups.huggingface import WorkspaceLookups
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.resources import PODS
from devcluster.apiserver.messages import ApiResponse
from devcluster.apiserver.status import bad_request
from tests.integration.harness import RunningOperator, World
from tests.integration.workspaces import Workspaces, opened, served

pytestmark = pytest.mark.embedded_only
RESULT = b'KAITO_BENCHMARK_RESULT 2026-01-01T00:00:00Z {"vllm_total_tpm":12345.5}\n'

Answer = "Callable[[], Awaitable[ApiResponse]]"


def text(content: bytes, status: int = 200, kind: str = "text/plain") -> Answer:
    async def answer() -> ApiResponse:
        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(content), 65536):
                yield content[start : start + 65536]

        return ApiResponse(status, chunks(), {"content-type": kind})  # type: ignore[arg-type]

    return answer


async def never() -> ApiResponse:
    await asyncio.sleep(1e6)
    raise AssertionError


async def failing() -> ApiResponse:
    raise bad_request("container phi in pod phi-0 is waiting to start")


class Logs:
    """The logs of the world's pods: each answer once, the last one from then on.

    Attributes:
        answers: what follows.
        asked: when a log was asked for, and with what.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.answers: list[Answer] = [text(b"")]
        self.asked: list[tuple[float, dict[str, str]]] = []
        assert world.server is not None
        world.server.hooks.pod_log = self._log

    async def _log(self, request: Any, _where: Any) -> ApiResponse:
        self.asked.append((self.world.loop.time(), dict(request.query)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer()


@pytest.fixture
async def spaces(world: World) -> AsyncIterator[Workspaces]:
    async with opened(world) as workspaces:
        with served(world):
            yield workspaces


def run_operator(spaces: Workspaces, **more: Any) -> RunningOperator:
    world = spaces.world
    lookups = WorkspaceLookups(world.client("lookups"), world.loop)
    return world.start_operator(kinds=[WorkspaceKind(lookups=lookups)], **more)


async def serving(spaces: Workspaces, name: str = "phi") -> None:
    world = spaces.world
    await spaces.create(name)
    await spaces.has_nodes(name)
    await world.settle(5)
    server = await spaces.server(name)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
    owner |= {"name": name, "uid": server.metadata.uid}
    image = server.spec.template.spec.containers[0].image
    body = {
        "metadata": {
            "name": f"{name}-0",
            "labels": {labels.WORKSPACE: name},
            "ownerReferences": [owner],
        },
        "spec": {
            "schedulingGates": [{"name": "example.com/the-test-is-the-kubelet"}],
            "containers": [{"name": name, "image": image}],
        },
    }
    await world.user.create(PODS, world.namespace, body)
    ready = {"name": name, "ready": True, "restartCount": 0, "image": image, "imageID": "x"}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{**ready, "state": {"running": {}}}],
    }
    await world.user.merge_patch(
        PODS, world.namespace, f"{name}-0", {"status": status}, subresource="status"
    )


async def test_the_result_is_recorded_once_and_the_log_is_never_read_again(spaces: Workspaces):
    logs = Logs(spaces.world)
    logs.answers = [text(b"vllm starts\n" + RESULT + b"ready\n")]
    operator = run_operator(spaces)
    await serving(spaces)
    await spaces.reaches("BenchmarkCompleted", "True", "BenchmarkCompleted")
    found = (await spaces.workspace()).status
    assert found["performance"]["metrics"]["peakTokensPerMinute"]["value"] == "12345.5"
    assert found["state"] == "Ready"
    ((_, query),) = logs.asked
    assert (query["container"], query["tailLines"]) == ("phi", "500")
    assert int(query["limitBytes"]) <= 4 << 20
    await spaces.world.settle(5)
    begun = len(operator.transport.journal.entries)
    await spaces.world.settle(600)
    sent = [each.attributes.verb for each in operator.transport.journal.entries[begun:]]
    assert [verb for verb in sent if verb not in {"get", "list", "watch"}] == []
    assert len(logs.asked) == 1


async def test_whatever_the_log_says_the_model_serves_and_it_is_read_again(spaces: Workspaces):
    logs = Logs(spaces.world)
    logs.answers = [
        never,
        failing,
        text(b"<html>bad gateway</html>", 502, "text/html"),
        text(b"x" * (8 << 20)),
        text(b""),
        text(RESULT),
    ]
    run_operator(spaces)
    await serving(spaces)
    await spaces.reaches("WorkspaceSucceeded", "True", "workspaceSucceeded", seconds=10)
    await spaces.reaches("BenchmarkCompleted", "False", "BenchmarkFailed")
    assert len(logs.asked) <= 2
    assert "cannot be read" in (await spaces.condition("BenchmarkCompleted"))[2]
    await spaces.reaches("BenchmarkCompleted", "True", "BenchmarkCompleted", seconds=7200)
    times = [when for when, _ in logs.asked]
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(times)]
    assert pauses[-1] >= 80
    assert len(times) < 20


async def test_logs_that_never_come_hold_no_worker(spaces: Workspaces):
    logs = Logs(spaces.world)
    logs.answers = [never]
    run_operator(spaces, workers=1)
    await serving(spaces)
    await spaces.world.eventually(lambda: _true(bool(logs.asked)))
    began = spaces.world.loop.time()
    await spaces.create("second")
    await spaces.reaches("NodeClaimReady", "False", "NodeClaimNotReady", "second", seconds=1)
    assert spaces.world.loop.time() - began < 1


async def _true(found: bool) -> bool:
    return found
