"""`make demo KIND=rayservice`: real Ray Serve is upgraded without a failed request."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.e2e.processes import manta, until
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
