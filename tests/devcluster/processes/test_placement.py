"""Pods that are processes wait for a node with their labels, where the settings ask for it."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.resources import NODES
from tests.devcluster.processes.conftest import sh

pytestmark = pytest.mark.real_time


async def test_a_process_waits_for_a_node_with_its_labels_and_outlives_it(world):
    async with world.node(node_labels=True):
        await world.create("p", sh("exec sleep 60"), nodeSelector={"gpu": "a100"})
        waiting = await world.until("p", lambda pod: pod.status.condition("PodScheduled"))
        assert waiting.status.condition("PodScheduled").reason == "Unschedulable"

        await asyncio.sleep(0.3)  # until it rests
        meta = {"name": "gpu", "labels": {"gpu": "a100"}}
        await world.user.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        running = await world.until("p", lambda pod: pod.status.is_true("Ready"))
        assert running.spec.node_name == "gpu"

        await world.user.delete(NODES, "", "gpu")
        await world.delete("p")
        await world.gone("p")
