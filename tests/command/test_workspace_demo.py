"""What the demo of Workspaces measures, asks and calls wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.__main__ import main
from controller.command.development.demos.chat import ChatClient, ChatFailed
from controller.command.development.demos.workspace import (
    QUESTION,
    WorkspaceDemoSummary,
    wrong_claims,
)
from controller.command.development.demos.workspace_cloud import (
    LATE_PLUGIN,
    OUT_OF_STOCK,
    DemoCloud,
)
from controller.command.development.demos.workspace_waits import Wait, Waits
from controller.devcluster.karpenter.objects import ProvisionedClaim
from controller.kaito.workspace import WorkspaceKind
from controller.kube.errors import KubeError, Status, StatusError
from controller.kube.responses import Response
from controller.runtime.metrics import RuntimeMetrics

if TYPE_CHECKING:
    from pathlib import Path


def claim(uid: str) -> ProvisionedClaim:
    return msgspec.convert({"metadata": {"name": uid, "uid": uid}}, ProvisionedClaim)


def test_the_first_claim_is_out_of_stock_and_the_next_lacks_its_plugin_at_first():
    cloud = DemoCloud()
    assert [cloud(claim(uid)) for uid in ("a", "a", "b", "a", "c")] == [
        OUT_OF_STOCK,
        OUT_OF_STOCK,
        LATE_PLUGIN,
        OUT_OF_STOCK,
        LATE_PLUGIN,
    ]
    assert OUT_OF_STOCK.stock_out
    assert LATE_PLUGIN.plugin_after


@pytest.mark.parametrize(("made", "most"), [(1, 1), (3, 1), (2, 2)])
def test_a_claim_too_many_or_two_at_a_time_are_wrong(made: int, most: int):
    assert wrong_claims(2, 1) == []
    summary = WorkspaceDemoSummary(wrong=wrong_claims(made, most))
    assert not summary.worked
    assert f"FAILED: {made} claims were made, {most} at a time" in summary.text()


def test_the_summary_says_what_was_waited_for_and_what_was_answered():
    wait = Wait("a node", "the worker slept", 8.64, 16, 0.333)
    summary = WorkspaceDemoSummary(waits=[wait], model="phi", answer="This is a stand-in")
    assert summary.text().splitlines() == [
        "waited",
        "  8.6 s for a node",
        "        Kaito: the worker slept",
        "        Manta: 16 reconciles held a worker for 0.33 s in all",
        f"asked phi: {QUESTION}",
        "answer: This is a stand-in",
        "left on this machine: nothing",
        "everything worked",
    ]


async def test_reconciles_are_counted_while_it_waits():
    registry = CollectorRegistry()
    own = RuntimeMetrics(registry, version="1").controller(WorkspaceKind.name, 1).seconds
    waits = Waits(registry)
    own.observe(5.0)
    with waits.measure("a node", "-"):
        await asyncio.sleep(10)
        own.observe(0.25)
    with pytest.raises(RuntimeError), waits.measure("a server", "-"):
        raise RuntimeError
    assert waits.done == [Wait("a node", "-", 10.0, 1, 0.25)]


class User:
    """Somebody whose requests are answered in this order."""

    def __init__(self, *answers: KubeError | tuple[int, Any]) -> None:
        self._answers = list(answers)
        self.bodies: list[Any] = []

    async def proxy(self, *_: Any, body: bytes | None = None, **__: Any) -> Response:
        self.bodies.append(msgspec.json.decode(body) if body else None)
        answer = self._answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return Response(answer[0], {}, msgspec.json.encode(answer[1]))


def chat(user: Any) -> ChatClient:
    return ChatClient(user, "default", "phi")


async def test_models_are_asked_for_until_the_service_leads_to_a_pod():
    nobody = StatusError(Status(code=503, message="no endpoints available"))
    user = User(nobody, nobody, (200, {"object": "list", "data": [{"id": "phi"}]}))
    assert await chat(user).models() == ["phi"]


async def test_a_question_is_sent_as_openai_has_it():
    user = User((200, {"choices": [{"message": {"role": "assistant", "content": "because"}}]}))
    assert await chat(user).ask("phi", "why?") == "because"
    message = {"role": "user", "content": "why?"}
    assert user.bodies == [{"model": "phi", "messages": [message]}]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((400, {"error": "busy"}), "answered with 400"),
        ((200, {"choices": []}), "gave no answer"),
        ((200, {"choices": [{}]}), "the model server answered"),
        ((200, "hello"), "the model server answered"),
    ],
)
async def test_an_answer_that_is_none_fails_the_demo(answer: tuple[int, Any], words: str):
    with pytest.raises(ChatFailed, match=words):
        await chat(User(answer)).ask("phi", "why?")


@pytest.mark.parametrize(
    "text",
    [
        "# nothing\n",
        "kind: RayCluster\nmetadata: {name: a}\n",
        "kind: Workspace\nmetadata: {name: a}\n",
        "kind: Workspace\nmetadata: {name: a}\ninference: {template: {}}\n",
        "kind: Workspace\ninference: {preset: {name: a}}\n",
        "kind: Workspace\nmetadata: {name: a}\ninference: {preset: {name: a}}\n---\nkind: Job\n",
    ],
)
def test_it_takes_one_workspace_with_a_preset(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(text)
    assert main(["demo", "--kind", "workspace", "-f", str(manifest)]) == 2
    assert f"{manifest} is not one Workspace with a preset" in capsys.readouterr().err
