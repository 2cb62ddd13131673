"""From KubeRay to Manta and back as docs/takeover.md has it, on live objects."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.processes import ROOT, Kubectl, manta, manta_dev, manta_once, needs_kubectl, until
from tests.ports import free_port

pytestmark = [needs_kubectl, pytest.mark.timeout(400)]

OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kuberay-operator"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app.kubernetes.io/component": "kuberay-operator"}},
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/component": "kuberay-operator"}},
            "spec": {"containers": [{"name": "operator", "image": "kuberay/operator"}]},
        },
    },
}

PODS = ("get", "pods", "-l", "ray.io/cluster=example")


def change(command: str, kubectl: Kubectl, *arguments: str) -> subprocess.CompletedProcess[str]:
    return manta_once(command, "--kubeconfig", str(kubectl.kubeconfig), *arguments)


def made_by_kuberay(kubectl: Kubectl, *, workers: int) -> None:
    """A RayCluster with the pods and the service that KubeRay's operator makes for it."""
    cluster = yaml.safe_load((ROOT / "examples" / "raycluster.yaml").read_text())
    kubectl("create", "-f", "-", stdin=yaml.safe_dump(cluster))
    uid = kubectl("get", "raycluster", "example", "-o", "jsonpath={.metadata.uid}")
    owner = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": "example",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    group = cluster["spec"]["workerGroupSpecs"][0]
    head = pod("example-head-x7k2p", "head", "headgroup", cluster["spec"]["headGroupSpec"], owner)
    head["metadata"]["annotations"] = {
        "ray.io/ft-enabled": "false",
        "ray.io/kuberay-version": "v1.6.0",
        "ray.io/upgrade-strategy-recreate-hash": "0AV3M1EO6Q7S4I1R2QNR5UGOPE2QBBKV",
    }
    made = [head]
    for suffix in ("b4kqz", "m9wrt", "z2xcv")[:workers]:
        name = f"example-workers-worker-{suffix}"
        made.append(pod(name, "worker", group["groupName"], group, owner))
    kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(made))
    until(lambda: kubectl(*PODS, "--no-headers").count("Running") == len(made))


def pod(
    name: str, role: str, group: str, spec: dict[str, Any], owner: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                "ray.io/cluster": "example",
                "ray.io/node-type": role,
                "ray.io/group": group,
                "ray.io/is-ray-node": "yes",
                "ray.io/identifier": f"example-{role}",
                "app.kubernetes.io/name": "kuberay",
                "app.kubernetes.io/created-by": "kuberay-operator",
            },
            "ownerReferences": [owner],
        },
        "spec": spec["template"]["spec"],
    }


def uids(kubectl: Kubectl) -> set[str]:
    return set(kubectl(*PODS, "-o", "jsonpath={.items[*].metadata.uid}").split())


def replicas(kubectl: Kubectl) -> str:
    path = "jsonpath={.spec.replicas}"
    return kubectl("get", "deployment", "kuberay-operator", "-o", path)


@pytest.mark.slow
def test_clusters_change_hands_and_back_without_a_pod_being_touched(tmp_path: Path):
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        kubectl("create", "-f", "-", stdin=yaml.safe_dump(OPERATOR))
        made_by_kuberay(kubectl, workers=2)
        before = uids(kubectl)
        checked = manta_once("run", "--check", "--kubeconfig", str(kubectl.kubeconfig))
        assert (checked.returncode, "can start" in checked.stdout) == (0, True), checked.stderr

        taken = change("take-over", kubectl, "--no-install", "-o", "json")
        assert taken.returncode == 0, taken.stderr
        assert json.loads(taken.stdout)["done"]
        assert "Start Manta now" in taken.stderr
        assert replicas(kubectl) == "0"

        port = f"127.0.0.1:{free_port()}"
        addresses = ("--metrics-address=", f"--health-address={port}")
        config = ("--kubeconfig", str(kubectl.kubeconfig))
        with manta(tmp_path, "run", *config, *addresses) as operator:
            state = ("get", "raycluster", "example", "-o", "jsonpath={.status.state}")
            until(lambda: kubectl(*state) == "ready", why=operator.text)
            assert uids(kubectl) == before

        given = change("hand-back", kubectl, "--no-uninstall")
        assert given.returncode == 0, given.stderr
        assert replicas(kubectl) == "1"
        assert uids(kubectl) == before


@pytest.mark.slow
def test_nothing_changes_hands_if_a_pod_would_have_to_go(tmp_path: Path):
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        kubectl("create", "-f", "-", stdin=yaml.safe_dump(OPERATOR))
        made_by_kuberay(kubectl, workers=3)  # one more than the specification says
        taken = change("take-over", kubectl, "--no-install")
        assert taken.returncode == 3
        assert "forbidden, and would happen: delete" in taken.stderr
        assert replicas(kubectl) == "1"
