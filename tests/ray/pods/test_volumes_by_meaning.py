"""Volumes of ours beside those of users: paths count by their meaning, a name claims nothing."""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.settings import read_cluster_domain
from tests.ray.cluster.support import manifest
from tests.ray.pods.test_builder import pods_of, worker_of
from tests.samples import case

Body = dict[str, Any]

SHM, SCRATCH = "/dev/shm", "/tmp/ray"
TOKEN = "/var/run/secrets/ray.io/serviceaccount"
MEMORY: Body = {"emptyDir": {"medium": "Memory", "sizeLimit": "9Gi"}}
DISK: Body = {"emptyDir": {}}
CLAIM: Body = {"persistentVolumeClaim": {"claimName": "data"}}


def with_volume(raw: Body, role: str, name: str, source: Body, path: str = "") -> Body:
    """The manifest whose Ray container of that role mounts this volume, if there is a path."""
    spec = raw["spec"]
    group = spec["headGroupSpec"] if role == "head" else spec["workerGroupSpecs"][0]
    pod = group["template"]["spec"]
    pod.setdefault("volumes", []).append({"name": name} | source)
    if path:
        mount = {"name": name, "mountPath": path}
        pod["containers"][0].setdefault("volumeMounts", []).append(mount)
    return raw


def volumes(pod: Body) -> dict[str, Body]:
    """The sources of its volumes by name, of which none is taken twice."""
    named = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert len(named) == len(pod["spec"]["volumes"])
    return {name: {k: v for k, v in named[name].items() if k != "name"} for name in named}


def mounted(container: Body) -> list[tuple[str, str]]:
    """What it mounts: paths in their plain notation, and names."""
    return [
        ("/" + "/".join(filter(None, mount["mountPath"].split("/"))), mount["name"])
        for mount in container.get("volumeMounts", ())
    ]


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/", "//dev//shm", "/dev/./shm", "dev/shm"])
def test_where_a_user_mounts_shared_memory_no_second_one_is_mounted(path: str):
    pod = worker_of(with_volume(manifest(), "worker", "mine", MEMORY, path))
    assert [name for at, name in mounted(pod["spec"]["containers"][0]) if "shm" in at] == ["mine"]
    assert "shared-mem" not in volumes(pod)


@pytest.mark.parametrize("path", ["/dev/shm-cache", "/dev", "/dev/shm/sub", "/DEV/SHM"])
def test_a_mount_elsewhere_is_not_shared_memory(path: str):
    pod = worker_of(with_volume(manifest(), "worker", "mine", MEMORY, path))
    assert (SHM, "shared-mem") in mounted(pod["spec"]["containers"][0])


@pytest.mark.parametrize(
    ("source", "path", "name"),
    [
        (CLAIM, "/data", "shared-mem-1"),
        (CLAIM, "", "shared-mem-1"),
        (DISK, "/scratch", "shared-mem-1"),
        (DISK, "", "shared-mem-1"),
        (MEMORY, "/cache", "shared-mem-1"),
        (MEMORY, "", "shared-mem"),
    ],
)
def test_a_volume_of_our_name_is_ours_only_if_it_is_the_same_thing(
    source: Body, path: str, name: str
):
    pod = worker_of(with_volume(manifest(), "worker", "shared-mem", source, path))
    assert (SHM, name) in mounted(pod["spec"]["containers"][0])
    found = volumes(pod)
    assert found["shared-mem"] == source, "the user's stays as it is"
    assert found[name]["emptyDir"]["medium"] == "Memory"


def test_the_next_name_may_be_taken_too():
    raw = with_volume(manifest(), "worker", "shared-mem", CLAIM, "/data")
    pod = worker_of(with_volume(raw, "worker", "shared-mem-1", DISK, "/more"))
    assert (SHM, "shared-mem-2") in mounted(pod["spec"]["containers"][0])


@pytest.mark.parametrize(
    ("directory", "mounts"), [("/dev/shm/", True), ("/mnt/plasma", False), ("/dev/shm2", False)]
)  # fmt: skip
def test_a_plasma_directory_counts_by_its_path(directory: str, mounts: bool):
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0]["rayStartParams"] = {"plasma-directory": directory}
    container = worker_of(raw)["spec"]["containers"][0]
    assert (SHM in dict(mounted(container))) is mounts


def autoscaling(raw: Body) -> tuple[Body, Body, Body]:
    """The head, its Ray container and its autoscaler."""
    raw["spec"]["enableInTreeAutoscaling"] = True
    head = pods_of(raw)[0]
    ray, scaler = head["spec"]["containers"]
    return head, ray, scaler


@pytest.mark.parametrize(
    ("name", "source", "path", "ours"),
    [
        ("mine", DISK, "/tmp/ray/", ("mine", "mine")),
        ("ray-logs", CLAIM, "/tmp/ray/", ("ray-logs", "ray-logs")),
        ("ray-logs", CLAIM, "/data", ("ray-logs-1", "ray-logs-1")),
        ("ray-logs", DISK, "", ("ray-logs", "ray-logs")),
    ],
)
def test_ray_and_its_autoscaler_share_logs(
    name: str, source: Body, path: str, ours: tuple[str, str]
):
    head, ray, scaler = autoscaling(with_volume(manifest(), "head", name, source, path))
    assert (dict(mounted(ray))[SCRATCH], dict(mounted(scaler))[SCRATCH]) == ours
    assert volumes(head)[name] == source


def test_an_autoscaler_that_mounts_its_logs_itself_gets_no_second_mount():
    raw = with_volume(manifest(), "head", "mine", DISK)
    mounts = [{"name": "mine", "mountPath": "/tmp/ray/"}]
    raw["spec"]["autoscalerOptions"] = {"volumeMounts": mounts}
    assert mounted(autoscaling(raw)[2]) == [(SCRATCH, "mine")]


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("ray-token", "/data", "ray-token-1"),
        ("mine", f"{TOKEN}/", "mine"),
        ("mine", "/data", "ray-token"),
    ],
)
def test_the_token_is_mounted_once_in_each_container(name: str, path: str, expected: str):
    raw = with_volume(manifest(), "head", name, CLAIM, path)
    raw = with_volume(raw, "worker", name, CLAIM, path)
    raw["spec"]["rayVersion"] = "2.55.0"
    raw["spec"]["authOptions"] = {"mode": "token", "enableK8sTokenAuth": True}
    raw["spec"]["enableInTreeAutoscaling"] = True
    for pod in pods_of(raw):
        ours, *others = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        assert [at for at, _ in mounted(ours)].count(TOKEN) == 1
        assert dict(mounted(ours))[TOKEN] == expected
        for other in others:
            assert dict(mounted(other))[TOKEN] in volumes(pod)
            assert volumes(pod)[dict(mounted(other))[TOKEN]] != CLAIM or expected == "mine"


def test_the_groups_of_the_report_have_one_mount_at_each_path():
    (raw,) = case("24-plasma-dir-and-user-shm.yaml")
    raw["metadata"]["name"] = "example"
    found: dict[str, list[tuple[str, str]]] = {}
    for pod in pods_of(raw):
        for container in pod["spec"]["containers"]:
            paths = [at for at, _ in mounted(container)]
            assert len(paths) == len(set(paths))
        found[pod["metadata"]["labels"]["ray.io/group"]] = mounted(pod["spec"]["containers"][0])
    assert found["plasma"] == [("/mnt/plasma", "plasma")]
    assert found["own-mount"] == [(SHM, "dshm")]
    assert found["own-name"] == [("/data", "shared-mem"), (SHM, "shared-mem-1")]
    assert found["sized"] == found["none"] == [(SHM, "shared-mem")]


@pytest.mark.parametrize("given", ["corp.example", "corp.example.", ".corp.example"])
def test_dots_around_the_domain_of_the_cluster_mean_nothing(given: str):
    assert read_cluster_domain({"CLUSTER_DOMAIN": given}) == "corp.example"
    assert read_cluster_domain({"CLUSTER_DOMAIN": "."}) == read_cluster_domain({})
