"""What the demo of rolling upgrades counts, and what it calls wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.command.cli.demo import EXAMPLES
from controller.command.development.demos.rolling import RollingDemoSummary
from controller.command.development.demos.rolling_work import (
    VERSION,
    Drain,
    Work,
    last_task,
    late_work,
    read_manifest,
)
from controller.command.development.view import RollingView
from controller.kube.errors import ConfigurationError
from controller.kube.objects import Pod
from controller.ray.api import RayCluster
from tests.command.development.view.test_job_view import Told

START = datetime(2026, 1, 1, tzinfo=UTC)
DRAIN = Drain("worker", "10.88.0.5", START, START + timedelta(seconds=30))


def ran(
    kind: str, number: int, began: float, *, seconds: float = 1, address: str = "10.88.0.5"
) -> str:
    at = START.timestamp() + began
    return json.dumps([kind, number, address, at, at + seconds]) + "\n"


def work(*lines: str) -> Work:
    done = Work()
    done.saw_log("".join(lines))
    return done


def result(tasks: int, calls: int, *sums: int) -> str:
    named = dict(zip(("task", "call"), sums, strict=True))
    return json.dumps({"begun": {"task": tasks, "call": calls}, "sums": named}) + "\n"


# The job.


def test_a_log_is_read_as_it_grows_and_only_whole_lines_count():
    done = Work()
    log = "INFO job_manager\n" + ran("task", 0, 0) + ran("call", 0, 0)
    for end in range(0, len(log) + 1, 7):
        done.saw_log(log[:end])
    done.saw_log(log)
    assert (done.count("task"), done.count("call")) == (1, 1)


def test_a_log_that_comes_late_is_read_once():
    done, log = Work(), ran("task", 0, 0) + ran("task", 1, 0)
    for seen in (log, log[:50], log):
        done.saw_log(seen)
    assert done.count("task") == 2


def test_the_right_sums_are_those_of_all_that_was_begun():
    calls = [ran("call", number, 0) for number in range(4)]
    right = work(ran("task", 1, 0), ran("task", 0, 0), *calls, result(2, 4, 2, 14))
    assert right.wrong_result() == []


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ((ran("task", 0, 0),), "the job printed no result"),
        ((ran("task", 0, 0), result(1, 0, 2, 0)), "the sum of each task is 2, not 1"),
        ((result(1, 0, 1, 0),), "of 1 tasks 0 were told, or some of them twice"),
        (
            (ran("task", 0, 0), ran("task", 0, 0), result(2, 0, 2, 0)),
            "of 2 tasks 2 were told, or some of them twice",
        ),
    ],
)
def test_anything_else_is_wrong(lines: tuple[str, ...], wrong: str):
    assert work(*lines).wrong_result() == [wrong]


def test_a_task_after_the_deadline_of_its_worker_is_late():
    done = work(
        ran("task", 0, 28.9),
        ran("task", 1, 29.5),
        ran("task", 2, 60, address="10.88.0.6"),
        ran("call", 0, 35),
        ran("call", 1, 40),
    )
    assert late_work(done.records, [DRAIN], call_grace=10) == [
        "task 1 ran on worker 0.5 s after its drain deadline",
        "call 1 ran on worker 11.0 s after its drain deadline",
    ]


def test_the_last_task_of_a_worker_says_when_ray_gave_it_no_more():
    done = work(ran("task", 0, -5), ran("task", 1, 4), ran("task", 2, 2), ran("call", 0, 9))
    assert last_task(done.records, DRAIN) == pytest.approx(4)
    assert last_task(work(ran("task", 0, -5)).records, DRAIN) == 0


def test_the_summary_counts_and_names_what_went_wrong():
    summary = RollingDemoSummary(work(ran("task", 0, 2)), [DRAIN], {"small": 4}, {"small": 3})
    text = summary.text()
    assert summary.worked
    assert "tasks that ended                 1" in text
    assert "workers of small at most         4, that took work at least 3" in text
    assert "worker: last task began 2.0 s after its drain did" in text
    assert text.endswith("everything worked")
    summary.wrong.append("something")
    assert not summary.worked
    assert summary.text().endswith("FAILED: something")


# The manifest.


def test_the_example_can_be_played_with_and_is_valid():
    manifest = read_manifest(EXAMPLES["rolling"])
    assert manifest.sizes == {"small": 3, "large": 3}
    assert manifest.options.surge_of(3) == 1
    assert [each["kind"] for each in manifest.others] == ["ConfigMap"]
    assert manifest.at("v1") == manifest.cluster["spec"]
    edited = manifest.at("v2")["workerGroupSpecs"]
    assert {each["template"]["metadata"]["labels"][VERSION] for each in edited} == {"v2"}
    assert manifest.at("v1") == manifest.cluster["spec"], "the edit is a copy"


def test_the_program_of_the_example_is_a_program():
    (config,) = read_manifest(EXAMPLES["rolling"]).others
    compile(config["data"]["counter.py"], "counter.py", "exec")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"upgradeStrategy": {"type": "Recreate"}}, "no upgradeStrategy of type RollingUpdate"),
        ({"workerGroupSpecs": []}, "fewer than two groups"),
        ({"workerGroupSpecs": [{"groupName": "a", "template": {}}]}, f"needs a label {VERSION}"),
        ({"workerGroupSpecs": 7}, "cannot be played with"),
    ],
)
def test_another_manifest_is_refused(spec: dict[str, Any], reason: str, tmp_path: Path):
    documents = list(yaml.safe_load_all(EXAMPLES["rolling"].read_text()))
    documents[0]["spec"] |= spec
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    with pytest.raises(ConfigurationError, match=reason):
        read_manifest(path)


# The view.


def pod(name: str, version: str, *, ready: bool = True, **metadata: Any) -> Pod:
    labels = {"ray.io/node-type": "worker", "ray.io/group": "small", VERSION: version}
    body = {
        "metadata": {"name": name, "labels": labels, **metadata},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return msgspec.convert(body, Pod)


def draining(name: str) -> Pod:
    since = {"manta.dev/draining-since": "2026-01-01T00:00:00Z"}
    return pod(name, "v1", annotations=since)


def test_each_change_is_told_with_the_counts():
    told = Told()
    view = RollingView("rolling", told, version=VERSION, progress=lambda: "7 tasks ended")
    view.saw_pod("default/a", pod("a", "v1"))
    view.count_fewest()
    view.saw_pod("default/b", pod("b", "v2", ready=False))
    view.saw_pod("default/b", pod("b", "v2"))
    view.saw_pod("default/a", draining("a"))
    view.saw_pod("default/a", None)
    assert [line for line in told.lines if "tasks" in line or "draining since" in line] == [
        "small: 1 v1 ready; 7 tasks ended",
        "small: 1 v1 ready, 1 v2 starting; 7 tasks ended",
        "small: 1 v1 ready, 1 v2 ready; 7 tasks ended",
        "pod a: draining since 2026-01-01T00:00:00Z",
        "small: 1 v1 draining, 1 v2 ready; 7 tasks ended",
        "small: 1 v2 ready; 7 tasks ended",
    ]
    assert view.draining == {"default/a": START}
    assert view.most == {"small": 2}
    assert view.fewest == {"small": 1}
    assert set(view.seen) == {"default/a", "default/b"}
    view.saw_pod("default/b", None)
    assert "no workers; 7 tasks ended" in told.lines[-1]


def test_the_condition_is_told_when_its_message_changes():
    told = Told()
    view = RollingView("rolling", told, version=VERSION, progress=str)
    for message in ("small: 1 of 3", "small: 1 of 3", "small: 2 of 3"):
        condition = {"type": "Upgrading", "status": "True", "reason": "Rolling", "message": message}
        body = {"metadata": {"name": "rolling"}, "status": {"conditions": [condition]}}
        view.saw_cluster("default/rolling", msgspec.convert(body, RayCluster))
    assert [line for line in told.lines if line.startswith("Upgrading")] == [
        "Upgrading: True (Rolling) small: 1 of 3",
        "Upgrading: True (Rolling) small: 2 of 3",
    ]
