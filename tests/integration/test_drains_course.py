"""What `benchmarks.drains` counts, without its control planes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.drained_work import Done, Notes, ray_cluster, ray_job, ray_service
from benchmarks.drains import Drain, Outcome, Requests, requests_of, table
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import embedded_world

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.embedded_only


def line(at: float, answers: int, *failures: str) -> str:
    told = [["/greet", "v1", "cluster", "1", answers]] if answers else []
    return json.dumps({"at": at, "answers": told, "failures": failures, "slowest": at / 100})


def test_seconds_without_an_answer_are_those_of_silent_lines():
    lines = [line(10, 5), line(11, 0, "refused (after 0.1 s)"), line(13, 0), line(14, 6), "x"]
    found = requests_of("\n".join(lines))
    assert (found.answered, found.silent_seconds, found.slowest) == (11, 3.0, 0.14)
    assert (found.failed, found.reasons) == (2, ["refused", "x"])


def test_work_of_lost_drivers_counts_as_done_for_nothing(tmp_path: Path):
    lost = [["a", "driver", 0], ["a", "actor", 0], ["a", "task", 0], ["a", "block", 0]]
    last = [["b", "driver", 0], ["b", "actor", 0], ["b", "actor", 0]]
    last += [["b", "task", number] for number in (0, 1, 1)] + [["b", "block", 0], ["b", "block", 0]]
    (tmp_path / "notes").write_text("".join(f"{json.dumps(each)}\n" for each in [*lost, *last]))
    notes = Notes(tmp_path)
    assert notes.done() == Done(2, False, 0, 4, 3, 1, 0, 0, 0.0)
    result: dict[str, Any] = {"tasks": 2, "blocks": 1, "puts": 9, "puts_lost": 4}
    (tmp_path / "result").write_text(json.dumps(result | {"attempt": "b", "slowest_call": 1.5}))
    assert notes.done() == Done(2, True, 2, 2, 2, 1, 9, 4, 1.5)


def test_refused_drains_and_lost_results_are_named_in_the_table():
    drains = [Drain("n1", False, 31.4, True), Drain("n2", True, 45.0, False)]
    work = Done(1, True, 70, 2, 3, 1, 60, 20, 4.0)
    ours = Outcome(drains, [Drain("n2", True, 12.0, True)], work)
    theirs = Outcome(
        [replace(drains[0]), replace(drains[1], drained=True)], [], replace(work, sums_right=False)
    )
    printed = table("rayjob", {"Manta": ours, "KubeRay": theirs})
    rows = {row[:38].strip(): row[38:].split() for row in printed.splitlines()}
    assert rows["rayjob"] == ["Manta", "KubeRay"]
    assert rows["drain of the head's node"] == ["refused", "45", "s"]
    assert rows["the same when the work has ended"] == ["12", "s", "-"]
    assert rows["the sums are right"] == ["yes", "NO", "RESULT"]
    asked = Outcome(drains, [], requests=Requests(900, 2, 3.0, 1.25))
    assert "requests failed                                          2" in table("x", {"M": asked})


async def test_the_cluster_of_the_course_is_valid_and_has_its_pods(tmp_path: Path):
    async with embedded_world() as world:
        world.start_operator()
        await world.user.create(RAYCLUSTERS, world.namespace, ray_cluster(tmp_path))
        await world.eventually(lambda: world.is_ready("course"), seconds=60)
        assert len((await world.user.list(PODS, world.namespace)).items) == 3
    assert ray_job(tmp_path)["spec"]["rayClusterSpec"] == ray_cluster(tmp_path)["spec"]
    assert ray_service(tmp_path)["spec"]["rayClusterConfig"] == ray_cluster(tmp_path)["spec"]
