"""The operator of docs/adding-a-kind.md, as a process beside `manta dev`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, manta_dev, needs_kubectl

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
