"""`make demo` is the first thing that a newcomer runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, manta_dev, manta_once, needs_kubectl

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


# -- the operator of docs/adding-a-kind.md, as a process beside `manta dev` ------------------------


OFF = ("--metrics-address=0", "--health-address=0")


@pytest.mark.slow
@pytest.mark.timeout(400)
@needs_kubectl
def test_the_example_of_a_kind_makes_its_widget_ready(tmp_path: Path):
    folder = "examples/kinds/widget"
    with manta_dev(tmp_path) as (_, kubectl):
        kubectl("apply", "-f", f"{folder}/crd.yaml")
        kubectl("wait", "--for=condition=Established", "crd/widgets.example.dev", "--timeout=80s")
        kubectl("apply", "-f", f"{folder}/widget.yaml")
        operator = subprocess.Popen(
            [sys.executable, "-m", "examples.kinds.widget.widget", *OFF],
            cwd=ROOT,
            env=os.environ | {"KUBECONFIG": str(kubectl.kubeconfig)},
        )
        try:
            kubectl("wait", "--for=condition=Ready", "widget/hello", "--timeout=80s")
        finally:
            operator.terminate()
            assert operator.wait(90) == 0
        copies = kubectl("get", "configmaps", "-l", "example.dev/widget=hello", "-o", "name")
        assert len(copies.split()) == 3
