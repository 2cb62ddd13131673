"""Where pods that are processes run, if the settings ask for a scheduler."""

from __future__ import annotations

import asyncio

import pytest

from devcluster.nodes.objects import NODES
from tests.devcluster.processes.conftest import sh

pytestmark = pytest.mark.real_time


async def test_a_process_waits_for_a_node_with_its_labels_and_outlives_it(world):
    async with world.node(scheduling=True):
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


async def test_processes_share_the_machine_and_one_that_asks_for_more_than_it_waits(world):
    async with world.node(scheduling=True):
        (node,) = (await world.user.list(NODES, "")).items
        machine = int(node.status.capacity["cpu"])
        for name, cpus in (("a", machine), ("b", machine), ("large", machine + 1)):
            asks = {"requests": {"cpu": str(cpus)}}
            await world.create(name, sh("exec sleep 60") | {"resources": asks})
        for name in ("a", "b"):
            await world.until(name, lambda pod: pod.status.is_true("Ready"))
        waiting = await world.until("large", lambda pod: pod.status.condition("PodScheduled"))
        assert "1 Insufficient cpu" in waiting.status.condition("PodScheduled").message


async def test_a_process_that_waits_for_another_to_go_runs_when_it_is_gone(world):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with world.node(scheduling=True):
        await world.create("a", sh("exec sleep 60"))
        await world.until("a", lambda pod: pod.status.is_true("Ready"))
        await world.create("b", sh("exec sleep 60"), affinity=apart)
        await world.until("b", lambda pod: pod.status.condition("PodScheduled"))
        await world.delete("a", grace=0)
        await world.until("b", lambda pod: pod.status.is_true("Ready"))
