"""`make demo KIND=workspace`: a model gets its node, answers and goes, and nothing is left."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
import yaml

from tests.e2e.processes import ROOT, manta, manta_dev, needs_kubectl, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DEMO = ("demo", "--kind", "workspace")
IN_THIS_ORDER = [
    r"condition ResourceReady: False InsufficientCapacity: all requested instance types were",
    r"NodeClaim (\S+): gone",
    r"condition NodesReady: False NodePluginsNotReady: ",
    r"Node \S+-node: Ready, offers 1 GPU",
    r"StatefulSet phi-4-mini: starting: 0 of 1 pods ready",
    r"condition InferenceReady: True ",
    r"\| This is a stand-in, not a language model\.",
    r"GET /v1/models: phi-4-mini-instruct",
    r"answer: This is a stand-in, not a language model\. .*You asked: What does a controller do",
    r"Workspace phi-4-mini: gone",
    r"left on this machine: nothing",
    r"everything worked",
]


def test_a_workspace_gets_a_node_in_spite_of_a_stock_out_answers_and_goes(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        assert demo.wait(200) == 0, demo.text()
    told = demo.out.read_text()
    place = 0
    for pattern in IN_THIS_ORDER:
        found = re.compile(pattern).search(told, place)
        assert found, f"{pattern} is not in\n{told[place:]}"
        place = found.end()
    claims = set(re.findall(r"NodeClaim (\S+): starting", told))
    assert len(claims) == 2
    assert all(f"NodeClaim {name}: gone" in told for name in claims)
    waits = re.findall(r"Manta: (\d+) reconciles held a worker for (\S+) s in all", told)
    assert len(waits) == 3
    assert "\x1b" not in told


def test_a_workspace_that_gets_no_node_makes_the_demo_fail(tmp_path: Path):
    document = yaml.safe_load((ROOT / "examples" / "workspace.yaml").read_text())
    document["resource"]["instanceType"] = "Standard_Unknown"
    manifest = tmp_path / "workspace.yaml"
    manifest.write_text(yaml.safe_dump(document))
    with manta(tmp_path, *DEMO, "-f", str(manifest)) as demo:
        assert demo.wait(200) == 1, demo.text()
    told = demo.out.read_text()
    assert "FAILED: not reached within 40 s: created -> out of stock" in told
    assert "left on this machine: nothing" in told


def test_a_demo_that_is_interrupted_cleans_up(tmp_path: Path):
    with manta(tmp_path, *DEMO) as demo:
        until(lambda: "pod phi-4-mini-0: Running" in demo.text(), seconds=100, why=demo.text)
        demo.popen.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130, demo.text()
    assert "Traceback" not in demo.text()


# -- `manta dev --workspaces`: a Workspace gets a simulated node, and gives it back ----------------


EXAMPLE = str(ROOT / "examples" / "workspace.yaml")


@needs_kubectl
@pytest.mark.timeout(400)
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
