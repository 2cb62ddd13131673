"""`manta dev --workspaces`: a Workspace gets a simulated node, and gives it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, manta_dev, needs_kubectl, until

pytestmark = [pytest.mark.slow, needs_kubectl, pytest.mark.timeout(400)]

EXAMPLE = str(ROOT / "examples" / "workspace.yaml")


def test_a_workspace_gets_its_node_becomes_ready_and_gives_the_node_back(tmp_path: Path):
    with manta_dev(tmp_path, "--workspaces") as (process, kubectl):
        first = process.out.read_text().partition("\n")[0]
        assert first == "Pods are simulated; `manta dev --ray` runs them."
        assert "kubectl apply -f examples/workspace.yaml" in process.out.read_text()
        before = kubectl("get", "nodes", "-o", "name")
        kubectl("apply", "-f", EXAMPLE)
        kubectl("wait", "workspace/phi-4-mini", "--for=condition=InferenceReady", "--timeout=80s")
        (claim,) = kubectl.json("get", "nodeclaims")["items"]
        (pod,) = kubectl.json("get", "pods")["items"]
        assert pod["spec"]["nodeName"] == claim["status"]["nodeName"]

        kubectl("delete", "workspace", "phi-4-mini", "--timeout=80s")
        assert kubectl.json("get", "nodeclaims")["items"] == []
        assert kubectl("get", "nodes", "-o", "name") == before
        until(lambda: not kubectl.json("get", "pods,statefulsets")["items"], why=process.text)
