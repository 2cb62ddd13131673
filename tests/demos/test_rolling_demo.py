"""What the demo of rolling upgrades counts, and what it calls wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.command.cli.printed import example_files
from controller.kube.errors import ConfigurationError
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from demos.rolling import (
    VERSION,
    Drain,
    RollingDemo,
    Work,
    late_work,
)
from demos.stage import summary
from tests.demos.test_view import playing

START = datetime(2026, 1, 1, tzinfo=UTC)
DRAIN = Drain("worker", "10.88.0.5", START + timedelta(seconds=30))


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


# The manifest.


def example() -> RollingDemo:
    return RollingDemo(example_files()["rolling"])


def test_the_example_can_be_played_with_and_is_valid():
    demo = example()
    assert demo.sizes == {"small": 3, "large": 3}
    assert demo.options.surge_of(3) == 1
    assert [each["kind"] for each in demo.others] == ["ConfigMap"]
    assert demo.at("v1") == demo.object["spec"]
    edited = demo.at("v2")["workerGroupSpecs"]
    assert {each["template"]["metadata"]["labels"][VERSION] for each in edited} == {"v2"}
    assert demo.at("v1") == demo.object["spec"], "the edit is a copy"


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
    documents = list(yaml.safe_load_all(example_files()["rolling"].read_text()))
    documents[0]["spec"] |= spec
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    with pytest.raises(ConfigurationError, match=reason):
        RollingDemo(path)


# The workers.


def pod(name: str, version: str, *, ready: bool = True, **metadata: Any) -> Pod:
    labels = {"ray.io/node-type": "worker", "ray.io/group": "small", VERSION: version}
    body = {
        "metadata": {"name": name, "labels": labels, **metadata},
        "status": {
            "podIP": "10.88.0.5",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }
    return msgspec.convert(body, Pod)


def draining(name: str) -> Pod:
    since = {"manta.dev/draining-since": "2026-01-01T00:00:00Z"}
    return pod(name, "v1", annotations=since)


def test_each_change_is_told_with_the_counts():
    demo = example()
    told = playing(demo)
    demo.view.on_change.append(demo.count_workers)
    demo.work = work(ran("task", 0, 2))
    demo.view.saw(PODS, "default/a", pod("a", "v1"))
    demo.view.saw(PODS, "default/b", pod("b", "v2", ready=False))
    demo.view.saw(PODS, "default/b", pod("b", "v2"))
    demo.view.saw(PODS, "default/a", draining("a"))
    demo.view.saw(PODS, "default/a", None)
    assert [line for line in told.lines if "tasks" in line or "draining since" in line] == [
        "small: 1 v1 ready; 1 tasks, 0 calls ended",
        "small: 1 v1 ready, 1 v2 starting; 1 tasks, 0 calls ended",
        "small: 1 v1 ready, 1 v2 ready; 1 tasks, 0 calls ended",
        "pod a: draining since 2026-01-01T00:00:00Z",
        "small: 1 v1 draining, 1 v2 ready; 1 tasks, 0 calls ended",
        "small: 1 v2 ready; 1 tasks, 0 calls ended",
    ]
    assert demo.draining == {"default/a": START}
    assert demo.most == {"small": 2}

    text = summary(demo, [])
    assert "tasks that ended                 1" in text
    assert "workers of small at most         2" in text
    assert text.endswith("left on this machine: nothing\neverything worked")
    demo.most = {"small": 5, "large": 3}
    demo.check()
    assert demo.wrong == ["the job printed no result", "small had 5 workers, allowed are 4"]
    assert summary(demo, []).endswith("FAILED: small had 5 workers, allowed are 4")
