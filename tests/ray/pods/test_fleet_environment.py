"""Which copy of a RayClusterFleet a pod belongs to, in the environment of its Ray container."""

from __future__ import annotations

from typing import Any

from tests.ray.cluster.support import manifest
from tests.ray.pods.test_builder import HASHES, head_of, pods_of, ray, value


def copy_number(index: str, count: str) -> dict[str, Any]:
    raw = manifest()
    raw["metadata"]["annotations"] = {
        "manta.dev/cluster-index": index,
        "manta.dev/cluster-count": count,
    }
    return raw


def hashes(raw: dict[str, Any]) -> list[dict[str, str]]:
    found = [pod["metadata"]["annotations"] for pod in pods_of(raw)]
    return [{key: each[key] for key in HASHES if key in each} for each in found]


def test_head_and_workers_know_their_copy_and_the_number_of_copies():
    for pod in pods_of(copy_number("2", "5")):
        assert value(ray(pod), "MANTA_CLUSTER_INDEX") == "2"
        assert value(ray(pod), "MANTA_CLUSTER_COUNT") == "5"


def test_neither_counts_for_the_hashes_so_that_a_changed_count_replaces_nothing():
    assert hashes(copy_number("2", "5")) == hashes(copy_number("0", "7")) == hashes(manifest())


def test_a_cluster_of_no_fleet_has_no_such_variables():
    names = {entry["name"] for pod in pods_of(manifest()) for entry in ray(pod)["env"]}
    assert not {name for name in names if name.startswith("MANTA_")}


def test_a_variable_of_the_user_is_kept():
    raw = copy_number("2", "5")
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "MANTA_CLUSTER_INDEX", "value": "mine"}]
    entries = [e for e in ray(head_of(raw))["env"] if e["name"] == "MANTA_CLUSTER_INDEX"]
    assert entries == container["env"]
