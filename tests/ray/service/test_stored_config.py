"""The Serve config on a RayCluster."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from msgspec.structs import replace

from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.identity import (
    load,
    store,
)
from controller.ray.service.rollout import (
    ClusterFacts,
    GoalCluster,
    RolloutFacts,
    keeps_outdated_cluster,
)
from controller.runtime.plan import MergePatch
from tests.integration.rayservices import serve_config
from tests.ray.service.scenes import ACTIVE, OLD, Scene, edition

CONFIG = {"applications": [{"name": "hello", "import_path": "hello:app"}]}


def test_what_is_stored_is_loaded_with_the_same_hash():
    annotations = store(CONFIG)
    loaded = load(annotations)
    assert loaded is not None
    assert loaded.body == CONFIG
    assert loaded.hash == annotations[labels.SERVE_CONFIG_HASH]
    assert list(loaded.applications) == ["hello"]


def test_the_order_of_keys_makes_no_difference():
    other = {"applications": [dict(reversed(CONFIG["applications"][0].items()))]}
    assert store(other) == store(CONFIG)


def test_a_request_adds_the_capacity_and_nothing_else():
    loaded = load(store(CONFIG))
    assert loaded is not None
    assert json.loads(loaded.request(None)) == CONFIG
    for capacity in (0, 20, 40, 60, 80, 100):
        assert json.loads(loaded.request(capacity)) == {**CONFIG, "target_capacity": capacity}


def test_a_cluster_without_the_annotation_has_none():
    assert load(None) is None
    assert load({"other": "x"}) is None


def packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data)).decode()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "?",
        "AAAA",
        packed(b""),
        packed(b"[]"),
        packed(b"\xff"),
        packed(b"[" * 100_000),
        packed(b'{"a": ' * 100_000 + b"1" + b"}" * 100_000),
        packed(b'{"applications": 5}'),
        packed(b'{"applications": ["hello"]}'),
        packed(b'{"applications": [{"name": 1}]}'),
    ],
    ids=range(11),
)
def test_an_annotation_of_another_writer_is_said_to_be_unreadable(value: str):
    assert labels.SERVE_CONFIG in str(load({labels.SERVE_CONFIG: value}))


def test_a_bomb_is_not_unpacked():
    assert "cannot be read" in str(load({labels.SERVE_CONFIG: packed(b" " * (64 << 20))}))


def test_another_config_is_no_longer_recorded_as_accepted():
    scene = Scene(edition(OLD, serve_config("later")))
    cluster = scene.has(ACTIVE, edition(OLD, serve_config("hi")))
    assert cluster.metadata.annotations is not None
    cluster.metadata.annotations[labels.SERVE_CONFIG_APPLIED] = "hash of the former"
    [written] = [
        write.patch["metadata"]["annotations"]
        for stage in scene.plan().stages
        for write in stage
        if isinstance(write, MergePatch) and write.target.resource is RAYCLUSTERS
    ]
    assert labels.SERVE_CONFIG in written
    assert written[labels.SERVE_CONFIG_APPLIED] is None


def test_an_outdated_cluster_that_is_kept_gets_configs_unless_another_is_to_replace_it():
    kept = RolloutFacts(strategy=UpgradeType.NONE, active=ClusterFacts(recorded=True, exists=True))
    assert keeps_outdated_cluster(kept)
    pending = ClusterFacts(recorded=True)
    assert not keeps_outdated_cluster(replace(kept, pending=pending, rolling_back=True))
    assert not keeps_outdated_cluster(replace(kept, active=replace(kept.active, exists=False)))
    assert not keeps_outdated_cluster(replace(kept, goal=GoalCluster.ACTIVE))
    assert not keeps_outdated_cluster(replace(kept, strategy=UpgradeType.NEW_CLUSTER))
