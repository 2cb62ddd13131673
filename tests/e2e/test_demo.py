"""`make demo` is the first thing that a newcomer runs."""

from __future__ import annotations

import pytest

from tests.e2e.processes import manta_once

pytestmark = pytest.mark.timeout(400)


def test_the_demo_works_and_prints_plain_lines_into_a_pipe():
    done = manta_once("demo", seconds=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cluster example: ready" in done.stdout
    assert "surplus pods: 0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Try next: `manta demo --kind rayjob`")
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_a_demo_that_cannot_work_says_so_and_fails(tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("apiVersion: [")
    done = manta_once("demo", "-f", str(broken))
    assert done.returncode == 2
    assert str(broken) in done.stderr

    other = tmp_path / "other.yaml"
    for text, words in (
        ("# nothing\n", "holds 0 RayClusters; it must hold one"),
        ("kind: Service\nmetadata: {name: a}\n", "holds a Service, and this demo"),
        ("kind: RayCluster\nmetadata: {name: a}\nspec: {}\n", "no RayCluster with a worker group"),
    ):
        other.write_text(text)
        done = manta_once("demo", "-f", str(other))
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
