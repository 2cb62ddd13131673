"""`make demo KIND=rayjob`: a job computes something with real Ray, and nothing of it is left."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
import yaml

from tests.e2e.processes import ROOT, Process, manta, until
from tests.e2e.ray.machine import needs_ray, summary_of, traces_of

pytestmark = [pytest.mark.slow, needs_ray, pytest.mark.timeout(2400)]
DEMO = ("demo", "--kind", "rayjob")
FAILS = """python -c 'raise SystemExit("it cannot be done")'"""
RUNS = 600.0  # seconds, on a machine that has much else to do


def computes(demo: Process) -> None:
    until(
        lambda: "round 1: pi is about 3.1" in demo.text() or demo.popen.poll() is not None,
        seconds=RUNS,
        why=demo.text,
    )
    assert demo.popen.poll() is None, demo.text()


def test_a_job_fails_on_purpose_is_retried_on_a_fresh_cluster_and_goes_on(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        traces = traces_of(demo.popen.pid)
        status = demo.wait(2 * RUNS)
        told = demo.out.read_text()
        assert status == 0, demo.text()
    lines = [line.partition("| ")[2] for line in told.splitlines()]
    printed = [line for line in lines if line.startswith(("beginning", "round", "failing", "done"))]
    assert printed.index("beginning after round 0 of 6") < printed.index(
        "failing on purpose: the next attempt goes on from here"
    )
    assert "beginning after round 3 of 6" in printed
    assert re.fullmatch(
        r"round 6: pi is about 3\.1\d+ \(on pi-\S+-head-\S+ and pi-\S+-worker-\S+\)", printed[-2]
    )
    assert printed[-1] == "done"

    summary = summary_of(told)
    clusters = re.findall(r"^attempt \d on (\S+): (\w+)", summary, re.MULTILINE)
    assert [result for _, result in clusters] == ["Failed", "Succeeded"]
    assert clusters[0][0] != clusters[1][0]
    assert re.search(r"clusters made +2, all gone", summary)
    assert "left on this machine: nothing" in summary
    assert "everything worked" in summary
    assert "\x1b" not in told
    traces.go()


@pytest.mark.rare
def test_a_demo_that_is_interrupted_cleans_up(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        traces = traces_of(demo.popen.pid)
        computes(demo)
        assert traces.processes() > 20, "Ray runs"
        demo.popen.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130, demo.text()
        assert "Traceback" not in demo.text()
    traces.go()


@pytest.mark.rare
def test_of_a_demo_that_is_killed_nothing_is_left(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        traces = traces_of(demo.popen.pid)
        computes(demo)
        demo.popen.kill()
        demo.wait()
    until(lambda: not traces.there(), seconds=60, why=lambda: str(traces.there()))
    traces.go()


@pytest.mark.rare
def test_a_job_that_fails_for_good_makes_the_demo_fail_and_nothing_is_left(tmp_path: Path):
    documents = list(yaml.safe_load_all((ROOT / "examples" / "rayjob.yaml").read_text()))
    job = documents[0]
    job["spec"] |= {"entrypoint": FAILS, "backoffLimit": 0}
    del job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump_all(documents))
    with manta(tmp_path, *DEMO, "-f", str(manifest)) as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(RUNS) == 1, demo.text()
        summary = summary_of(demo.out.read_text())
    assert "| it cannot be done" in demo.text()
    assert re.search(r"^attempt 1 on pi-\S+: Failed \(AppFailed\)", summary, re.MULTILINE)
    assert "FAILED: the job ended as Failed: " in summary
    assert "clusters made                    1, all gone" in summary
    traces.go()
