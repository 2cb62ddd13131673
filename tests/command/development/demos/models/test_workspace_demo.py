"""What the demo of Workspaces measures, asks and calls wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.__main__ import main
from controller.command.development.demos.models import (
    LATE_PLUGIN,
    OUT_OF_STOCK,
    ChatClient,
    ChatFailed,
    DemoCloud,
    MeasuredWait,
    Waits,
    WorkspaceDemoSummary,
    WorkspaceReferee,
)
from controller.devcluster.apiserver.store import Stored, StoredEvent
from controller.devcluster.karpenter import ProvisionedClaim
from controller.kaito.workspace import WorkspaceKind
from controller.kube.errors import KubeError, Status, StatusError
from controller.kube.responses import Response
from controller.runtime.metrics import RuntimeMetrics


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


class Writes:
    """Writes to a store, as a referee sees them."""

    def __init__(self) -> None:
        self.referee = WorkspaceReferee()

    def write(self, table: str, name: str, *, new: bool = True, **status: Any) -> None:
        stored = Stored({"metadata": {"name": name}, "status": status}, 1)
        kind, before = ("ADDED", None) if new else ("MODIFIED", stored)
        self.referee(StoredEvent(kind, table, name, 1, stored, before))

    def claims(self, *names: str) -> None:
        """Claims that come and go one after the other."""
        for name in names:
            self.write("nodeclaims.karpenter.sh", name)
            self.delete(name)

    def delete(self, name: str) -> None:
        stored = Stored({"metadata": {"name": name}}, 1)
        self.referee(StoredEvent("DELETED", "nodeclaims.karpenter.sh", name, 2, stored, stored))


def test_two_claims_one_after_the_other_and_a_server_on_gpus_are_right():
    writes = Writes()
    writes.claims("a", "b")
    writes.write("nodes", "n", capacity={"cpu": "4"})
    writes.write("nodes", "n", new=False, capacity={"nvidia.com/gpu": "1"})
    writes.write("statefulsets.apps", "phi")
    assert writes.referee.wrong() == []


@pytest.mark.parametrize("names", ["a", "abc"])
def test_another_number_of_claims_is_wrong(names: str):
    writes = Writes()
    writes.claims(*names)
    assert writes.referee.wrong() == [
        f"{len(names)} claims were created, 1 at a time, instead of 2, one after the other"
    ]


def test_two_claims_at_a_time_are_wrong():
    writes = Writes()
    writes.write("nodeclaims.karpenter.sh", "a")
    writes.write("nodeclaims.karpenter.sh", "a", new=False)
    writes.write("nodeclaims.karpenter.sh", "b")
    (sentence,) = writes.referee.wrong()
    assert sentence.startswith("2 claims were created, 2 at a time")


def test_a_server_before_its_node_has_gpus_is_wrong_and_fails_the_demo():
    writes = Writes()
    writes.claims("a", "b")
    writes.write("statefulsets.apps", "phi")
    writes.write("nodes", "n", capacity={"nvidia.com/gpu": "1"})
    summary = WorkspaceDemoSummary(wrong=writes.referee.wrong())
    assert not summary.worked
    assert "FAILED: the server was created before its node offered GPUs" in summary.text()


def test_the_summary_says_what_was_waited_for_and_what_was_answered():
    wait = MeasuredWait("a node", "the worker slept", 8.64, 16, 0.333)
    answer = "This is a stand-in"
    summary = WorkspaceDemoSummary(waits=[wait], model="phi", question="Why?", answer=answer)
    assert summary.text().splitlines() == [
        "waited",
        "  8.6 s for a node",
        "        Kaito: the worker slept",
        "        Manta: 16 reconciles held a worker for 0.33 s in all",
        "asked phi: Why?",
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
    assert waits.done == [MeasuredWait("a node", "-", 10.0, 1, 0.25)]


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


async def test_a_server_without_a_model_fails_the_demo():
    with pytest.raises(ChatFailed, match="serves no model"):
        await chat(User((200, {"data": []}))).models()


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
