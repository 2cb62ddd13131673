"""Nodes of a simulated Ray join and leave with the pods of a cluster."""

from __future__ import annotations

from controller.kube.objects import Pod
from controller.ray.dashboard import Head
from tests.integration.harness import World, embedded_world
from tests.integration.ray_nodes import RayNodesOfWorld
from tests.integration.rays import Rays


async def test_each_ready_pod_is_a_node_and_a_deleted_one_is_dead():
    async with embedded_world() as world:
        rays = Rays(world)
        rays.ray.pods = RayNodesOfWorld(world)
        world.start_operator()
        await world.create_cluster()
        await world.eventually(world.is_ready)
        head = rays.head()
        assert await alive(rays, head) == {pod.status.pod_ip for pod in pods(world)}
        await world.scale(1)
        await world.eventually(lambda: len(pods(world)) == 2)
        assert await alive(rays, head) == {pod.status.pod_ip for pod in pods(world)}
        client = await rays.ray.connect(head)
        listed = (await client.nodes()).by_address.values()
        assert sorted(node.alive for node in listed) == [False, True, True]
        assert [node.alive for node in listed if node.head] == [True]


def pods(world: World) -> list[Pod]:
    return list(world.journal.present.values())


async def alive(rays: Rays, head: Head) -> set[str]:
    found = (await (await rays.ray.connect(head)).nodes()).by_address
    return {address for address, node in found.items() if node.alive}
