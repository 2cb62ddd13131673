"""What a person sees of a RayJob."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console

from controller.command.development.view import JobView
from controller.kube.objects import Pod
from controller.ray.api import RayCluster, RayJob

FIRST = {
    "number": 1,
    "rayClusterName": "pi-aaaaa",
    "startTime": "2026-01-01T00:00:00Z",
    "endTime": "2026-01-01T00:00:41Z",
    "result": "Failed",
    "reason": "AppFailed",
    "message": "it exited with 1, last available logs (truncated):\nTraceback",
}


class Told:
    """A screen that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.picture: Any = str

    def headline(self, text: str) -> None:
        self.lines.append(text)

    def change(self, text: str) -> None:
        self.lines.append(text)

    def draw(self, picture: Any) -> None:
        self.picture = picture

    def close(self) -> None:
        pass

    def text(self) -> str:
        console = Console(width=100)
        with console.capture() as captured:
            console.print(self.picture())
        return captured.get()


def job(name: str = "pi", **status: Any) -> RayJob:
    return msgspec.convert({"metadata": {"name": name}, "status": status}, RayJob)


def test_each_change_is_one_line_and_an_attempt_that_ended_is_told_with_its_cause():
    told = Told()
    view = JobView("pi", told)
    view.saw_job("default/pi", job())
    view.saw_job("default/pi", job(jobDeploymentStatus="Initializing"))
    begun = {name: FIRST[name] for name in ("number", "rayClusterName", "startTime")}
    view.saw_job("default/pi", job(jobDeploymentStatus="Initializing", attempts=[begun]))
    running = job(jobDeploymentStatus="Running", jobStatus="RUNNING", attempts=[begun])
    view.saw_job("default/pi", running)
    view.saw_job("default/pi", job(jobDeploymentStatus="Retrying", attempts=[FIRST]))
    view.saw_job("default/pi", None)
    assert told.lines == [
        "RayJob pi: new",
        "RayJob pi: Initializing",
        "attempt 1 on pi-aaaaa: under way",
        "RayJob pi: Running, Ray says RUNNING",
        "attempt 1 on pi-aaaaa: Failed (AppFailed) after 41 s: it exited with 1",
        "RayJob pi: Retrying",
        "RayJob pi: gone",
    ]


def test_another_job_is_none_of_its_business():
    told = Told()
    JobView("pi", told).saw_job("default/other", job("other", jobDeploymentStatus="Failed"))
    assert told.lines == []


def test_a_job_has_ended_when_nothing_more_will_follow():
    view = JobView("pi", Told())
    for state, ended in (("Retrying", False), ("Running", False), ("Complete", True)):
        view.saw_job("default/pi", job(jobDeploymentStatus=state))
        assert view.has_ended is ended


def test_what_is_gone_is_counted_still():
    view = JobView("pi", Told())
    cluster = msgspec.convert({"metadata": {"name": "pi-aaaaa"}}, RayCluster)
    pod = msgspec.convert({"metadata": {"name": "pi-aaaaa-head"}}, Pod)
    view.saw_cluster("default/pi-aaaaa", cluster)
    view.saw_pod("default/pi-aaaaa-head", pod)
    view.saw_cluster("default/pi-aaaaa", None)
    view.saw_pod("default/pi-aaaaa-head", None)
    assert (view.clusters, view.pods) == ({}, {})
    assert view.clusters_seen == {"default/pi-aaaaa"}
    assert view.pods_seen == {"default/pi-aaaaa-head"}


def test_the_picture_shows_status_attempts_pods_and_the_last_lines():
    told = Told()
    view = JobView("pi", told)
    view.saw_job("default/pi", job(jobDeploymentStatus="Running", attempts=[FIRST]))
    view.saw_pod(
        "default/pi-x",
        msgspec.convert({"metadata": {"name": "pi-x", "labels": {"job-name": "pi"}}}, Pod),
    )
    for number in range(30):
        view.saw_line(f"line {number}")
    shown = told.text()
    for words in ("RayJob pi: Running", "attempt 1 on pi-aaaaa", "pi-x", "submitter", "line 29"):
        assert words in shown
    assert "line 3 " not in shown
    assert view.lines == 30
