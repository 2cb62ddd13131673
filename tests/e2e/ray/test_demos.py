"""`make demo` of services, autoscaling, drained nodes, upgrades and mTLS, each with real Ray."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.processes import ROOT, manta, until
from tests.e2e.ray.machine import needs_ray, summary_of, traces_of

pytestmark = [pytest.mark.slow, needs_ray, pytest.mark.timeout(2400)]
DEMO = ("demo", "--kind", "rayservice")


def test_image_and_config_are_changed_together_without_a_failed_request(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2000) == 0, demo.text()
    told = demo.out.read_text()
    assert re.search(r"this machine asked http://\S+:8000/greet: v1 of greetings-", told)
    assert "operator killed: exit status -9" in told
    summary = summary_of(told)
    answers = dict(re.findall(r"^answers of (v\d) +\d+  (\S+)$", summary, re.MULTILINE))
    assert set(answers) == {"v1", "v2", "v3"}
    assert answers["v1"] != answers["v2"] == answers["v3"]
    assert re.search(r"^requests that failed +0$", summary, re.MULTILINE)
    puts = re.findall(r"^PUT to (\S+): (.+) \(200\)$", summary, re.MULTILINE)
    assert list(dict.fromkeys(puts)) == [
        (answers["v1"], "greeter v1, adder v1"),
        (answers["v2"], "greeter v2, adder v2"),
        (answers["v3"], "greeter v2, adder v3"),
    ]
    assert "left on this machine: nothing" in summary
    assert "everything worked" in summary
    traces.go()


@pytest.mark.rare
def test_a_demo_that_is_interrupted_ends_the_operator_too(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        traces = traces_of(demo.popen.pid)
        until(lambda: "pod greetings-" in demo.text(), seconds=120, why=demo.text)
        assert re.search(r"operator: process \d+", demo.text())
        demo.popen.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130, demo.text()
        assert "Traceback" not in demo.text()
    traces.go()


@pytest.mark.rare
def test_of_a_demo_that_is_killed_no_operator_is_left(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        traces = traces_of(demo.popen.pid)
        until(lambda: "pod greetings-" in demo.text(), seconds=120, why=demo.text)
        demo.popen.kill()
        demo.wait()
    until(lambda: not traces.there(), seconds=60, why=lambda: str(traces.there()))
    traces.go()


# -- `make demo KIND=autoscaling`: Ray's autoscaler adds workers and removes idle ones -------------


EXAMPLE = (ROOT / "examples" / "autoscaling.yaml").read_text()


@pytest.mark.parametrize("version", [pytest.param("v1", marks=pytest.mark.rare), "v2"])
def test_real_ray_grows_for_a_job_and_shrinks_when_it_is_idle(version: str, tmp_path: Path):
    assert "version: v2" in EXAMPLE
    manifest = tmp_path / "autoscaling.yaml"
    manifest.write_text(EXAMPLE.replace("version: v2", f"version: {version}"))
    arguments = ("demo", "--kind", "autoscaling", "-f", str(manifest))
    with manta(tmp_path, *arguments) as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2000) == 0, demo.text()
    told = demo.out.read_text()
    for step in ("created -> ready", "job asks -> 2 workers", "job ended, idle -> 0 workers"):
        assert step in told
    assert "left on this machine: nothing" in told
    assert "everything worked" in told
    traces.go()


# -- `make demo KIND=drain`: nodes are emptied under a job on real Ray -----------------------------


@pytest.mark.rare
@pytest.mark.timeout(3000)
def test_a_job_counts_right_while_its_nodes_are_drained(tmp_path: Path):
    with manta(tmp_path, "demo", "--kind", "drain") as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2900) == 0, demo.text()
    summary = summary_of(demo.out.read_text())
    assert len(re.findall(r"^node \S+ drained -> whole +[\d.]+ s$", summary, re.MULTILINE)) >= 2
    counts = dict(re.findall(r"^(\w[\w ]+?) +(\d+)$", summary, re.MULTILINE))
    assert int(counts["workers drained"]) >= 6
    assert counts["ran after a drain deadline"] == "0"
    assert "everything worked" in summary
    traces.go()


# -- `make demo KIND=rayservice-incremental`: capacity and requests move in steps, and back --------


@pytest.mark.rare
def test_an_upgrade_is_reverted_half_way_and_another_one_completed_without_a_failed_request(
    tmp_path: Path,
):
    chart = tmp_path / "upgrade.svg"
    arguments = ("demo", "--kind", "rayservice-incremental", "--chart", str(chart))
    with manta(tmp_path, *arguments) as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2000) == 0, demo.text()
    told = demo.out.read_text()
    assert "(50 % capacity, 25 % of the requests)" in told
    summary = summary_of(told)
    assert re.search(r"^requests that failed +0$", summary, re.MULTILINE)
    clusters = set(re.findall(r"^answers of v2 +\d+  (\S+)$", summary, re.MULTILINE))
    assert len(clusters) == 2, "the reverted upgrade had a cluster of its own"
    puts = re.findall(r"^PUT to (\S+): (.+?)(?:, capacity \d+ %)? \(200\)$", summary, re.MULTILINE)
    for cluster, versions in puts:
        expected = "v2" if cluster in clusters else "v1"
        assert versions == f"greeter {expected}, adder {expected}"
    assert "everything worked" in summary
    texts = {each.text for each in ET.parse(chart).iter("{http://www.w3.org/2000/svg}text")}
    assert {"edited: v2", "reverted: v1", "complete", "v1", "v2"} <= texts
    traces.go()


# -- `make demo KIND=mtls`: a cluster of real Ray whose parts prove who they are -------------------


@pytest.mark.rare
@pytest.mark.timeout(1200)
def test_jobs_run_with_certificates_and_a_client_without_one_is_refused(tmp_path: Path):
    with manta(tmp_path, "demo", "--kind", "mtls") as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(1100) == 0, demo.text()
    summary = summary_of(demo.out.read_text())
    for step in (
        "a job -> succeeded",
        "a member asks -> succeeded",
        "a stranger asks -> failed",
        "issued anew -> another job",
    ):
        assert step in summary
    assert "everything worked" in summary
    traces.go()


# -- `make demo KIND=rolling`: workers of real Ray are replaced while a job runs on them -----------


STEPS = (
    "created -> ready",
    "job submitted -> it counts",
    "edited -> all are v2",
    "edited -> 2 small are v3",
    "rolled back -> all are v2",
    "job asked to end -> ended",
    "deleted -> nothing left",
)


@pytest.mark.rare
@pytest.mark.timeout(3000)
def test_a_job_counts_right_while_its_workers_are_replaced_and_half_of_an_upgrade_is_taken_back(
    tmp_path: Path,
):
    with manta(tmp_path, "demo", "--kind", "rolling") as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2900) == 0, demo.text()
    told = demo.out.read_text()
    assert "operator killed: exit status -9" in told
    assert "small: 1 v1 draining" in told
    summary = summary_of(told)
    counts = dict(re.findall(r"^(\w[\w ]+?) +(\d+)$", summary, re.MULTILINE))
    steps = re.findall(r"^(.+?) +[\d.]+ s$", summary, re.MULTILINE)
    assert tuple(steps) == STEPS
    assert int(counts["workers drained"]) >= 6
    assert int(counts["tasks that ended"]) > 100
    assert int(counts["calls of actors that ended"]) > 0
    assert counts["ran after a drain deadline"] == "0"
    assert "the job says: " in told
    for group in ("small", "large"):
        assert int(counts[f"workers of {group} at most"]) == 4
        assert f"{group}: 3 v1 ready" in told
    assert "left on this machine: nothing" in summary
    assert "everything worked" in summary
    traces.go()
