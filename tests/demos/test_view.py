"""What a person sees of a demo: a line for each change, its charts, the fullest picture."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from rich.console import Console

from controller.command.cli.printed import example_files
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import PODS, STATEFUL_SETS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from demos import DEMOS
from demos.stage import Demo
from demos.traffic import (
    Chart,
    MeasuredShares,
    Panel,
    Series,
    Traffic,
    chart_of,
)
from demos.view import LiveScreen, Screen, View

FIRST = {
    "number": 1,
    "rayClusterName": "pi-aaaaa",
    "startTime": "2026-01-01T00:00:00Z",
    "endTime": "2026-01-01T00:00:41Z",
    "result": "Failed",
    "reason": "AppFailed",
    "message": "it exited with 1, last available logs (truncated):\nTraceback",
}


class Told(Screen):
    def __init__(self) -> None:
        super().__init__(float)
        self.lines: list[str] = []
        self.picture: Any = str

    def headline(self, text: str) -> None:
        self.lines.append(text)

    def change(self, text: str) -> None:
        self.lines.append(text)

    def draw(self, picture: Any) -> None:
        self.picture = picture

    def text(self) -> str:
        console = Console(width=100)
        with console.capture() as captured:
            console.print(self.picture())
        return captured.get()


def playing(demo: Demo) -> Told:
    """What a demo shows, which begins."""
    told = demo.screen = Told()
    demo.view = View(told, demo.words)
    demo.view.counts = demo.counts
    return told


def shown(kind: str) -> tuple[Demo, Told]:
    demo = DEMOS[kind](example_files()[kind])
    return demo, playing(demo)


def see(demo: Demo, resource: Resource[Any], *objects: dict[str, Any] | None) -> None:
    """An object as it becomes."""
    key = ""
    for each in objects:
        if each is not None:
            key = f"default/{each['metadata']['name']}"
        seen = None if each is None else msgspec.convert(each, resource.view)
        demo.view.saw(resource, key, seen)


def obj(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def conditions(*listed: tuple[str, ...]) -> list[dict[str, str]]:
    return [dict(zip(("type", "status", "reason", "message"), c, strict=False)) for c in listed]


def test_of_a_job_each_change_is_told_and_an_attempt_that_ended_with_its_cause():
    demo, told = shown("rayjob")
    begun = {name: FIRST[name] for name in ("number", "rayClusterName", "startTime")}
    see(
        demo,
        RAYJOBS,
        obj("pi"),
        obj("pi", jobDeploymentStatus="Initializing"),
        obj("pi", jobDeploymentStatus="Initializing", attempts=[begun]),
        obj("pi", jobDeploymentStatus="Running", jobStatus="RUNNING", attempts=[begun]),
        obj("pi", jobDeploymentStatus="Retrying", attempts=[FIRST]),
        None,
    )
    assert told.lines == [
        "RayJob pi: new",
        "RayJob pi: Initializing",
        "attempt 1 on pi-aaaaa: under way",
        "RayJob pi: Running, Ray says RUNNING",
        "RayJob pi: Retrying",
        "attempt 1 on pi-aaaaa: Failed (AppFailed) after 41 s: it exited with 1",
        "RayJob pi: gone",
    ]


def test_of_a_job_what_is_gone_is_counted_still():
    demo, _ = shown("rayjob")
    see(demo, RAYJOBS, obj("pi", attempts=[FIRST]), None)
    see(demo, RAYCLUSTERS, obj("pi-aaaaa"), None)
    see(demo, PODS, obj("pi-aaaaa-head"), None)
    assert not any(demo.view.objects.values())
    assert list(demo.counts()) == [
        "attempt 1 on pi-aaaaa: Failed (AppFailed) after 41 s: it exited with 1",
        "lines that the job printed       0",
        "clusters made                    1, all gone",
        "pods made                        1, all gone",
    ]


def test_the_picture_shows_objects_the_last_lines_and_the_counts():
    demo, told = shown("rayjob")
    see(demo, RAYJOBS, obj("pi", jobDeploymentStatus="Running", attempts=[FIRST]))
    see(demo, PODS, obj("pi-x"))
    for number in range(30):
        demo.view.show(f"line {number}")
    for words in ("RayJob pi", "Running", "attempt 1 on pi-aaaaa", "pod pi-x", "line 29", "made"):
        assert words in told.text()
    assert "line 3 " not in told.text()


def test_of_a_service_each_change_is_told():
    demo, told = shown("rayservice")
    first, second = {"rayClusterName": "svc-a"}, {"rayClusterName": "svc-b"}
    up, down = conditions(("Ready", "True")), conditions(("Ready", "False"))
    shares = {"targetCapacity": 20, "trafficRoutedPercent": 10}
    see(demo, RAYSERVICES, obj("svc", conditions=down, pendingServiceStatus=first))
    see(demo, RAYSERVICES, obj("svc", conditions=up, activeServiceStatus=first))
    assert demo.view.is_true(RAYSERVICES, "Ready")
    status = {"activeServiceStatus": first, "pendingServiceStatus": second | shares}
    see(demo, RAYSERVICES, obj("svc", conditions=up, **status), None)
    assert told.lines == [
        "RayService svc: there",
        "RayService svc: Ready: False",
        "RayService svc: active cluster: none",
        "RayService svc: pending cluster: svc-a",
        "RayService svc: Ready: True",
        "RayService svc: active cluster: svc-a",
        "RayService svc: pending cluster: none",
        "RayService svc: pending cluster: svc-b (20 % capacity, 10 % of the requests)",
        "RayService svc: gone",
    ]


def test_of_a_workspace_conditions_are_told_but_for_the_one_that_says_nothing_more():
    demo, told = shown("workspace")
    waiting = conditions(
        ("NodeClaimReady", "False", "InsufficientCapacity", "no machine"),
        ("WorkspaceSucceeded", "False", "workspacePending", "not yet"),
    )
    see(demo, WORKSPACES, obj("phi", conditions=waiting), obj("phi", conditions=waiting))
    assert told.lines == [
        "Workspace phi: there",
        "condition NodeClaimReady: False InsufficientCapacity: no machine",
    ]


def test_of_a_workspace_claims_nodes_and_servers_are_told_until_they_are_gone():
    demo, told = shown("workspace")

    def claim(*listed: tuple[str, ...], **status: Any) -> dict[str, Any]:
        return obj("c", conditions=conditions(*listed), **status)

    going = {"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    see(
        demo,
        NODE_CLAIMS,
        claim(),
        claim(("Launched", "Unknown", "AwaitingReconciliation")),
        claim(("Launched", "False", "InsufficientCapacity")),
        claim(("Ready", "True", "Ready"), nodeName="n"),
        going,
        None,
    )

    def node(gpus: int, ready: str, marks: dict[str, str]) -> dict[str, Any]:
        capacity = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        status = {"capacity": capacity, "conditions": conditions(("Ready", ready))}
        return {"metadata": {"name": "n", "labels": marks}, "status": status}

    mine = {labels.WORKSPACE: "phi"}
    see(demo, NODES, node(2, "True", {}))
    assert not any(demo.view.objects.values()), "a node of others"
    see(demo, NODES, node(0, "False", mine), node(0, "True", mine), node(2, "True", mine), None)
    see(demo, STATEFUL_SETS, obj("phi", readyReplicas=0), None)
    assert told.lines == [
        "NodeClaim c: starting",
        "NodeClaim c: starting: AwaitingReconciliation",
        "NodeClaim c: starting: InsufficientCapacity",
        "NodeClaim c: ready: node n",
        "NodeClaim c: deleting",
        "NodeClaim c: gone",
        "Node n: not ready, without its GPU plugin",
        "Node n: Ready, without its GPU plugin",
        "Node n: Ready, offers 2 GPU",
        "Node n: gone",
        "StatefulSet phi: starting: 0 of 1 pods ready",
        "StatefulSet phi: gone",
    ]


def test_a_demo_ends_on_its_fullest_picture_and_not_on_the_empty_one(
    capsys: pytest.CaptureFixture[str],
):
    screen = LiveScreen(lambda: 1.0)
    screen.headline("create")
    screen.draw(lambda: "pod one\npod two")
    screen.headline("grow")
    screen.draw(lambda: "pod one\npod two\npod three")
    screen.headline("delete")
    screen.draw(lambda: "gone")
    screen.close()
    shown = capsys.readouterr().out
    assert "pod three" in shown
    assert "gone" not in shown
    assert shown.index("create") < shown.index("delete") < shown.index("pod one")


SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart) -> ET.Element:
    return ET.fromstring(chart.svg())


def lines(chart: Chart) -> list[list[tuple[float, float]]]:
    """The points of the thick lines."""
    return [
        [tuple(map(float, point.split(","))) for point in each.attrib["points"].split()]  # type: ignore[misc]
        for each in drawn(chart).iter(f"{SVG}polyline")
        if each.attrib["stroke-width"] == "2"
    ]


def test_a_value_that_holds_is_drawn_in_steps():
    held = Series("old", [(0, 100), (50, 60), (100, 0)], holds=True)
    (points,) = lines(Chart("upgrade", [Panel("capacity, %", [held])], 100))
    xs, ys = [x for x, _ in points], [y for _, y in points]
    assert xs == [56, 436, 436, 816, 816]
    assert ys[0] == ys[1] < ys[2] == ys[3] < ys[4]
    assert ys[4] - ys[0] == 120


def test_marks_that_follow_each_other_do_not_overlap():
    marks = [(1, "edited: v2"), (96, "reverted: v1"), (110, "edited: v2"), (248, "complete")]
    chart = Chart("upgrade", [Panel("%", [Series("a", [(0, 1)])])], 260, marks)
    texts = [each.attrib for each in drawn(chart).iter(f"{SVG}text") if "font-size" in each.attrib]
    places = [(float(each["x"]), float(each["y"])) for each in texts]
    heights = [y for _, y in places]
    assert heights == [heights[0], heights[0], heights[0] - 12, heights[0]]  # the last one first
    assert min(heights) > 24  # below the title


def test_titles_names_and_marks_are_written_as_text():
    chart = Chart(
        "v1 & v2", [Panel("%", [Series("a", [(0, 1)])]), Panel("1/s", [])], 95, [(30, "edited")]
    )
    texts = [each.text for each in drawn(chart).iter(f"{SVG}text")]
    assert {"v1 & v2", "%", "1/s", "a", "edited", "0 s", "90 s"} <= set(texts)


STEPS = (
    {"old": (100, 100)},
    {"old": (100, 100), "new": (50, 0)},
    {"old": (100, 75), "new": (50, 25)},
    {"old": (100, 75), "new": (50, 25)},
    {"old": (100, 50), "new": (50, 50)},
    {"old": (50, 50), "new": (50, 50)},
)


def seen(*steps: dict[str, tuple[int, int]]) -> MeasuredShares:
    shares = MeasuredShares()
    for step in steps:
        shares.saw(step)
    return shares


def test_each_change_is_noted_once():
    shares = seen(*STEPS)
    assert [(each.cluster, each.capacity, each.weight) for each in shares.listed] == [
        ("old", 100, 100),
        ("new", 50, 0),
        ("old", 100, 75),
        ("new", 50, 25),
        ("old", 100, 50),
        ("new", 50, 50),
        ("old", 50, 50),
    ]
    assert (shares.weight("new"), shares.weight("third")) == (50, 0)
    assert shares.wrong(50, 25) == []


def test_a_cluster_that_the_status_no_longer_names_has_nothing():
    shares = seen({"old": (50, 50), "new": (50, 50)}, {"new": (50, 50)}, {})
    latest = shares.latest("old")
    assert latest is not None
    assert (latest.capacity, latest.weight) == (0, 0)
    assert shares.weight("new") == 50


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        ({"old": (20, 20)}, "capacity 100 -> 20 %: old"),
        ({"old": (60, 60)}, "weight 100 -> 60 %: old"),
        ({"old": (50, 75)}, "75 % weight, 50 % capacity: old"),
    ],
)
def test_a_share_that_moves_too_fast_or_is_too_large_is_wrong(
    step: dict[str, tuple[int, int]], wrong: str
):
    assert wrong in seen({"old": (100, 100)}, step).wrong(50, 25)


def test_the_chart_has_capacities_weights_and_answers_of_each_version():
    shares, traffic = seen(*STEPS), Traffic()
    began = shares.listed[0].at
    for second, version in enumerate(("v1", "v1", "v2")):
        answers = [["/a", version, "old", "7", 20]]
        counted = {"at": began + second, "answers": answers, "failures": [], "slowest": 0.1}
        traffic.saw_line(json.dumps(counted))
    chart = chart_of(shares, traffic)
    assert chart.seconds == 2
    capacity, weight, answered = chart.panels
    assert [each.name for each in capacity.series] == ["old", "new"]
    assert [each.points[-1] for each in weight.series] == [(2, 50), (2, 50)]
    assert [(each.name, [value for _, value in each.points]) for each in answered.series] == [
        ("v1", [20, 20, 0]),
        ("v2", [0, 0, 20]),
    ]
