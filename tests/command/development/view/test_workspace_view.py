"""What the view of a Workspace shows and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controller.command.development.view import WorkspaceView
from controller.kaito.api import labels
from controller.kaito.api.karpenter import GpuNode, NodeClaim
from controller.kaito.api.workspace import Workspace
from controller.kube.objects import Pod, StatefulSet


class Lines:
    """A screen that remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def headline(self, text: str) -> None:
        self.said.append(text)

    def change(self, text: str) -> None:
        self.said.append(text)

    def draw(self, picture: Callable[[], Any]) -> None:
        picture()

    def close(self) -> None:
        pass


def view() -> tuple[WorkspaceView, Lines]:
    lines = Lines()
    return WorkspaceView("phi", lines), lines


def workspace(*conditions: tuple[str, str, str, str]) -> Workspace:
    listed = [
        dict(zip(("type", "status", "reason", "message"), c, strict=True)) for c in conditions
    ]
    body = {"metadata": {"name": "phi"}, "status": {"conditions": listed}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Workspace)


def claim(*conditions: tuple[str, str, str], node: str = "", going: bool = False) -> NodeClaim:
    listed = [dict(zip(("type", "status", "reason"), c, strict=True)) for c in conditions]
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    body = {"metadata": {"name": "c", **gone}, "status": {"nodeName": node, "conditions": listed}}
    return msgspec.convert(body, NodeClaim)


def node(gpus: int = 0, *, ready: str = "True", mine: bool = True) -> GpuNode:
    marks = {labels.WORKSPACE: "phi"} if mine else {}
    status = {
        "capacity": {"nvidia.com/gpu": str(gpus)} if gpus else {},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return msgspec.convert({"metadata": {"name": "n", "labels": marks}, "status": status}, GpuNode)


def test_conditions_are_shown_when_they_change_but_for_the_one_that_says_nothing_more():
    shown, lines = view()
    waiting = workspace(
        ("NodeClaimReady", "False", "InsufficientCapacity", "no machine"),
        ("WorkspaceSucceeded", "False", "workspacePending", "not yet"),
    )
    shown.saw_workspace("default/phi", waiting)
    shown.saw_workspace("default/phi", waiting)
    assert lines.said == [
        "condition NodeClaimReady: False InsufficientCapacity: no machine",
        "Workspace phi: there",
    ]
    assert not shown.is_true("NodeClaimReady")
    shown.saw_workspace("default/phi", workspace(("NodeClaimReady", "True", "Ready", "")))
    assert shown.is_true("NodeClaimReady")
    assert not shown.is_true("ResourceReady")
    assert ("NodeClaimReady", "InsufficientCapacity") in shown.reasons, "also when it is over"


def test_another_workspace_is_not_shown():
    shown, lines = view()
    shown.saw_workspace("default/falcon", workspace())
    assert shown.is_empty
    assert lines.said == []


def test_claims_are_shown_with_their_cause():
    shown, lines = view()
    shown.saw_claim("c-0", claim())
    shown.saw_claim("c-0", claim(("Launched", "Unknown", "AwaitingReconciliation")))
    shown.saw_claim("c-0", claim(("Launched", "False", "InsufficientCapacity")))
    shown.saw_claim("c-0", claim(going=True))
    shown.saw_claim("c-0", None)
    shown.saw_claim("c-1", claim(("Ready", "True", "Ready"), node="n"))
    assert lines.said == [
        "NodeClaim c-0: new",
        "NodeClaim c-0: AwaitingReconciliation",
        "NodeClaim c-0: InsufficientCapacity",
        "NodeClaim c-0: Terminating",
        "NodeClaim c-0: gone",
        "NodeClaim c-1: Ready, on n",
    ]
    assert shown.claims == {"c-1"}


def test_a_node_is_shown_with_its_gpus_and_nodes_of_others_are_not():
    shown, lines = view()
    shown.saw_node("own", node(mine=False))
    shown.saw_node("own", None)
    shown.saw_node("n", node(ready="False"))
    shown.saw_node("n", node())
    shown.saw_node("n", node(2))
    assert lines.said == [
        "Node n: not ready, without its GPU plugin",
        "Node n: Ready, without its GPU plugin",
        "Node n: Ready, offers 2 GPU",
    ]
    assert not shown.is_empty
    shown.saw_node("n", None)
    assert shown.is_empty


def test_server_and_pods_are_shown_until_they_are_gone():
    shown, lines = view()
    server = {"metadata": {"name": "phi"}, "status": {"readyReplicas": 0}}
    shown.saw_server("default/phi", msgspec.convert(server, StatefulSet))
    pod = {"metadata": {"name": "phi-0"}, "status": {"phase": "Running"}}
    shown.saw_pod("default/phi-0", msgspec.convert(pod, Pod))
    assert not shown.is_empty
    shown.saw_server("default/phi", None)
    assert not shown.is_empty
    shown.saw_pod("default/phi-0", None)
    assert shown.is_empty
    assert lines.said == [
        "StatefulSet phi: 0 of 1 ready",
        "pod phi-0: Running",
        "StatefulSet phi: gone",
        "pod phi-0: gone",
    ]


async def test_who_waits_is_woken_by_a_change():
    shown, _ = view()
    shown.saw_claim("c", claim())
    await shown.until(lambda v: v.claims == {"c"})
