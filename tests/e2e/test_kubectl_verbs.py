"""The verbs of kubectl that people use every day, all on one running `manta dev`."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, Kubectl, manta_dev, needs_kubectl, until

pytestmark = [needs_kubectl, pytest.mark.timeout(400)]

EXAMPLE = str(ROOT / "examples" / "raycluster.yaml")
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1", b: "2"}
"""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with manta_dev(tmp_path_factory.mktemp("dev")) as (process, kubectl):
        kubectl("apply", "-f", EXAMPLE)
        state = ("get", "raycluster", "example", "-o", "jsonpath={.status.state}")
        until(lambda: kubectl(*state) == "ready", why=process.text)
        yield kubectl


@pytest.fixture
def config(dev: Kubectl, tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    dev("apply", "-f", str(file))
    yield file
    dev("delete", "configmap", "settings", "--ignore-not-found")


def data(kubectl: Kubectl) -> dict[str, str]:
    return kubectl.json("get", "configmap", "settings")["data"]


def head_of(kubectl: Kubectl) -> str:
    head = ("get", "pod", "-l", "ray.io/node-type=head", "-o")
    return kubectl(*head, "jsonpath={.items[0].metadata.name}")


def node_of(kubectl: Kubectl, pod: str) -> str:
    node = kubectl.json("get", "pod", pod)["spec"]["nodeName"]
    assert node
    return node


@pytest.mark.slow
def test_describe_shows_objects_with_their_events(dev: Kubectl):
    cluster = dev("describe", "raycluster", "example")
    assert "Kind:         RayCluster" in cluster
    until(  # events may come later than what they tell of
        lambda: "Created" in dev("describe", "raycluster", "example").partition("Events:")[2]
    )
    pod = dev("describe", "pod", head_of(dev))
    assert "Controlled By:  RayCluster/example" in pod
    assert "Ready             True" in pod
    service = dev("describe", "service", "example-head-svc")
    assert "Endpoints:" in service


def test_explain_knows_custom_and_built_in_kinds(dev: Kubectl):
    assert "workerGroupSpecs\t<[]Object>" in dev("explain", "raycluster.spec")
    assert "restartPolicy\t<string>" in dev("explain", "pods.spec")
    assert "containerPort\t<integer> -required-" in dev("explain", "pod.spec.containers.ports")
    assert "clusterIP\t<string>" in dev("explain", "services.spec")
    assert "does not exist" in dev("explain", "pods.nothing", check=False)


@pytest.mark.slow
def test_logs_say_when_containers_started(dev: Kubectl, tmp_path: Path):
    head = head_of(dev)
    lines = dev("logs", head, "-c", "ray-head").splitlines()
    assert lines[0].startswith(f"container ray-head started on {node_of(dev, head)}")
    assert dev("logs", head, "-c", "ray-head", "--tail=1").splitlines() == lines[-1:]
    assert "is not valid for pod" in dev("logs", head, "-c", "nobody", check=False)

    dev("run", "short", "--image=busybox:1", "--restart=Never")
    dev("wait", "--for=condition=Ready", "pod/short", "--timeout=80s")
    followed = tmp_path / "followed"
    follower = dev.background("logs", "-f", "short", out=followed)
    try:
        until(lambda: "container short started" in followed.read_text())
        assert follower.poll() is None, "the pod still runs"
        dev("delete", "pod", "short", "--wait", "--timeout=80s")
        assert follower.wait(90) == 0
    finally:
        follower.kill()
        follower.wait()


def test_what_needs_a_process_in_a_pod_is_refused_in_words(dev: Kubectl):
    head = head_of(dev)
    for verb in (("exec", head, "--", "ls"), ("port-forward", head, "18265:8265")):
        assert "an embedded cluster has no connections into its pods" in dev(*verb, check=False)


@pytest.mark.slow
def test_drain_asks_the_budgets_of_pods(dev: Kubectl):
    budget = ("create", "poddisruptionbudget", "head", "--selector=ray.io/node-type=head")
    dev(*budget, "--min-available=1")
    head = head_of(dev)
    node = node_of(dev, head)
    drain = ("drain", node, "--pod-selector=ray.io/node-type=head", "--delete-emptydir-data")
    refused = dev(*drain, "--timeout=1s", check=False)
    assert "it would violate the pod's disruption budget" in refused
    assert head_of(dev) == head
    dev("delete", "poddisruptionbudget", "head")
    assert f"pod/{head} evicted" in dev(*drain)
    dev("uncordon", node)
    until(lambda: dev("get", "raycluster", "example", "-o", "jsonpath={.status.state}") == "ready")


@pytest.mark.slow
def test_resources_versions_and_permissions_can_be_asked_for(dev: Kubectl):
    resources = dev("api-resources")
    for kind in ("RayCluster", "Pod", "NetworkPolicy", "ResourceQuota", "Lease"):
        assert kind in resources
    assert "ray.io/v1\n" in dev("api-versions")
    assert dev("auth", "can-i", "create", "rayclusters").strip() == "yes"
    assert "*.*" in dev("auth", "can-i", "--list")
    assert "is running at" in dev("cluster-info")
    assert "Server Version: v1." in dev("version")


@pytest.mark.slow
def test_get_prints_every_format_and_selects(dev: Kubectl):
    workers = ("get", "pods", "-l", "ray.io/node-type=worker")
    assert dev(*workers, "-o", "name").count("pod/") == 2
    running = ("--field-selector=status.phase=Running", "--no-headers")
    assert len(dev(*workers, *running).splitlines()) == 2
    assert node_of(dev, head_of(dev)) in dev("get", "pods", "-o", "wide")
    columns = "custom-columns=NAME:.metadata.name,STATE:.status.state"
    assert dev("get", "raycluster", "-o", columns).split() == ["NAME", "STATE", "example", "ready"]
    assert "kind: RayCluster" in dev("get", "raycluster", "example", "-o", "yaml")
    dev("wait", "--for=condition=RayClusterProvisioned", "raycluster/example", "--timeout=80s")
    dev("wait", "--for=jsonpath={.status.state}=ready", "raycluster/example", "--timeout=80s")
    assert "NotFound" in dev("scale", "raycluster", "example", "--replicas=3", check=False)


@pytest.mark.slow
def test_what_has_a_number_of_replicas_is_scaled(dev: Kubectl):
    dev("apply", "-f", str(ROOT / "examples" / "rayclusterfleet.yaml"))
    scale = ("scale", "rayclusterfleet", "fleet")
    assert "scaled" in dev(*scale, "--replicas=5")
    assert dev("get", "rayclusterfleet", "fleet", "-o", "jsonpath={.spec.replicas}") == "5"
    assert "Expected replicas" in dev(*scale, "--current-replicas=4", "--replicas=6", check=False)
    assert "scaled" in dev(*scale, "--current-replicas=5", "--replicas=6")
    dev("delete", "rayclusterfleet", "fleet")


@pytest.mark.slow
def test_edit_diff_label_patch_and_replace(dev: Kubectl, config: Path, tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/a: "1"/a: "edited"/\' "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    assert "edited" in dev.with_environment(EDITOR=str(editor))("edit", "configmap", "settings")
    assert data(dev) == {"a": "edited", "b": "2"}

    difference = dev("diff", "-f", str(config), check=False)
    assert "-  a: edited" in difference
    assert '+  a: "1"' in difference
    assert data(dev)["a"] == "edited", "a diff changes nothing"

    dev("label", "configmap", "settings", "tier=one")
    dev("annotate", "configmap", "settings", "note=two")
    metadata = dev.json("get", "configmap", "settings")["metadata"]
    assert metadata["labels"] == {"tier": "one"}
    assert metadata["annotations"]["note"] == "two"

    patch = ("patch", "configmap", "settings")
    dev(*patch, "--type=merge", "-p", '{"data": {"c": "3"}}')
    dev(*patch, "--type=json", "-p", '[{"op": "remove", "path": "/data/b"}]')
    dev(*patch, "--type=strategic", "-p", '{"data": {"d": "4"}}')
    assert data(dev) == {"a": "edited", "c": "3", "d": "4"}
    dev("replace", "-f", str(config))
    assert data(dev) == {"a": "1", "b": "2"}


def test_dry_runs_change_nothing(dev: Kubectl, config: Path):
    before = dev.json("get", "configmap", "settings")
    dev("patch", "configmap", "settings", "-p", '{"data": {"a": "9"}}', "--dry-run=server")
    dev("label", "configmap", "settings", "x=y", "--dry-run=server")
    dev("delete", "configmap", "settings", "--dry-run=server")
    dev("create", "configmap", "other", "--dry-run=server")
    assert dev.json("get", "configmap", "settings") == before
    assert "NotFound" in dev("get", "configmap", "other", check=False)


def test_server_side_apply_takes_over_what_was_applied_by_the_client(
    dev: Kubectl, config: Path, tmp_path: Path
):
    less = tmp_path / "less.yaml"
    less.write_text(CONFIG.replace(', b: "2"', "").replace('a: "1"', 'a: "2"'))
    assert "serverside-applied" in dev("apply", "--server-side", "-f", str(less))
    assert data(dev) == {"a": "2"}, "what is applied no longer is gone"

    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace('a: "1"', 'a: "3"'))
    mine = ("apply", "--server-side", "--field-manager=other", "-f", str(other))
    refused = dev(*mine, check=False)
    assert "Apply failed with 1 conflict" in refused
    assert ".data.a" in refused
    dev(*mine, "--force-conflicts")
    assert data(dev) == {"a": "3", "b": "2"}
    managed = dev.json("get", "configmap", "settings", "--show-managed-fields")["metadata"]
    applied = [one for one in managed["managedFields"] if one["operation"] == "Apply"]
    assert "other" in {one["manager"] for one in applied}


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_every_way_to_treat_dependents(dev: Kubectl, cascade: str):
    create = ("create", "configmap")
    dev(*create, "owner")
    uid = dev.json("get", "configmap", "owner")["metadata"]["uid"]
    owner = f'{{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{uid}"}}'
    dev(*create, "owned")
    dev("patch", "cm", "owned", "-p", f'{{"metadata": {{"ownerReferences": [{owner}]}}}}')
    dev("delete", "configmap", "owner", f"--cascade={cascade}", "--wait", "--timeout=80s")
    if cascade == "orphan":
        assert "ownerReferences" not in dev.json("get", "cm", "owned")["metadata"]
        dev("delete", "configmap", "owned")
    until(lambda: "NotFound" in dev("get", "configmap", "owned", check=False))
