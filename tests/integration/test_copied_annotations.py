"""Templates that hold what a user has copied from a pod, Manta's own annotations among it."""

from __future__ import annotations

import pytest

from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, example_cluster

pytestmark = pytest.mark.embedded_only


@pytest.mark.parametrize("strategy", ["None", "RollingUpdate"])
async def test_no_worker_is_replaced_because_its_template_says_that_it_is_being_drained(
    world: World, strategy: str
):
    world.start_operator()
    body = example_cluster()
    (group, *_) = body["spec"]["workerGroupSpecs"]
    copied = {"manta.dev/draining-since": "2026-01-01T00:00:00Z", "theirs": "kept"}
    group["template"].setdefault("metadata", {})["annotations"] = copied
    body["spec"]["upgradeStrategy"] = {"type": strategy}
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.eventually(world.is_ready)
    await world.settle(60)
    assert not world.journal.marked
    for worker in world.journal.workers():
        annotations = worker.metadata.annotations or {}
        assert annotations["theirs"] == "kept"
        assert "manta.dev/draining-since" not in annotations
