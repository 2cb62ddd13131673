"""What the demo of Workspaces measures, asks and calls wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.__main__ import main
from controller.command.cli.printed import example_files
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.errors import KubeError, Status, StatusError
from controller.kube.transport import Response
from controller.runtime.metrics import RuntimeMetrics
from demos.stage import StepFailed, summary
from demos.workspace import (
    LATE_PLUGIN,
    OUT_OF_STOCK,
    DemoCloud,
    MeasuredWait,
    WorkspaceDemo,
    WorkspaceReferee,
    measured,
)
from devcluster.apiserver.store import Stored, StoredEvent
from devcluster.karpenter import ProvisionedClaim
from tests.demos.test_view import playing


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
    assert writes.referee.wrong() == ["the server was created before its node offered GPUs"]


def workspace_demo() -> WorkspaceDemo:
    return WorkspaceDemo(example_files()["workspace"])


def test_the_summary_says_what_was_waited_for_and_what_was_answered():
    demo = workspace_demo()
    demo.waits = [MeasuredWait("a node", "the worker slept", 8.64, 16, 0.333)]
    demo.answer = ("phi", "Why?", "This is a stand-in")
    assert summary(demo, []).splitlines() == [
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
    waits: list[MeasuredWait] = []
    own.observe(5.0)
    with measured(waits, registry, "a node", "-"):
        await asyncio.sleep(10)
        own.observe(0.25)
    with pytest.raises(RuntimeError), measured(waits, registry, "a server", "-"):
        raise RuntimeError
    assert waits == [MeasuredWait("a node", "-", 10.0, 1, 0.25)]


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


SERVED = (200, {"object": "list", "data": [{"id": "phi"}]})


async def asked(*answers: KubeError | tuple[int, Any]) -> tuple[WorkspaceDemo, list[Any]]:
    """A demo that has asked its model, and what was sent."""
    demo, user = workspace_demo(), User(*answers)
    playing(demo)
    demo.user = cast("Any", user)
    await demo.ask_model("why?")
    return demo, user.bodies


async def test_the_model_is_asked_as_openai_has_it_once_the_service_leads_to_a_pod():
    nobody = StatusError(Status(code=503, message="no endpoints available"))
    said = (200, {"choices": [{"message": {"role": "assistant", "content": "because"}}]})
    demo, bodies = await asked(nobody, nobody, SERVED, said)
    assert demo.answer == ("phi", "why?", "because")
    message = {"role": "user", "content": "why?"}
    assert bodies == [None, None, None, {"model": "phi", "messages": [message]}]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([(200, {"data": []})], "serves no model"),
        ([SERVED, (400, {"error": "busy"})], "answered with 400"),
        ([SERVED, (200, {"choices": []})], "gave no answer"),
        ([SERVED, (200, {"choices": [{}]})], "gave no answer"),
        ([SERVED, (200, "hello")], "was answered with 200: "),
    ],
)
async def test_an_answer_that_is_none_fails_the_demo(answers: list[Any], words: str):
    with pytest.raises(StepFailed, match=words):
        await asked(*answers)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nothing\n", "holds 0 Workspaces; it must hold one"),
        ("kind: RayCluster\nmetadata: {name: a}\n", "holds a RayCluster, and this demo takes Work"),
        ("kind: Workspace\nmetadata: {name: a}\n", "is not one Workspace with a preset"),
        (
            "kind: Workspace\nmetadata: {name: a}\ninference: {template: {}}\n",
            "is not one Workspace with a preset",
        ),
        ("kind: Workspace\ninference: {preset: {name: a}}\n", "without metadata.name"),
    ],
)
def test_it_takes_one_workspace_with_a_preset(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(text)
    assert main(["demo", "--kind", "workspace", "-f", str(manifest)]) == 2
    assert words in capsys.readouterr().err
