"""The namespace life cycle against the embedded API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.pods import PODS
from controller.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICES
from controller.testing.faults import watch_lag

if TYPE_CHECKING:
    from conftest import World


async def create_namespace(world: World, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await world.user.create(NAMESPACES, "", body)


async def create(world: World, resource: Any, name: str, **more: Any) -> None:
    metadata = {"name": name, "namespace": "team", **more.pop("metadata", {})}
    body = {"apiVersion": "v1", "kind": resource.kind, "metadata": metadata, **more}
    await world.user.create(resource, "team", body)


async def test_a_deleted_namespace_is_emptied_then_goes(world: World) -> None:
    async with world.nodes(termination_delay=3.0):
        await create_namespace(world, "team")
        await create(world, CONFIG_MAPS, "c")
        await create(world, SERVICES, "s", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
        await create(world, PODS, "p", spec={"containers": [{"name": "m", "image": "x"}]})
        await world.create_pod("elsewhere")
        await asyncio.sleep(5)
        await world.user.delete(NAMESPACES, "", "team")
        await asyncio.sleep(2)
        assert not await world.is_gone(NAMESPACES, "team")
        assert await world.is_gone(CONFIG_MAPS, "c", "team")
        await asyncio.sleep(5)
        assert await world.is_gone(NAMESPACES, "team")
        assert await world.is_gone(PODS, "p", "team")
        assert not await world.is_gone(PODS, "elsewhere")


async def test_an_object_with_a_finalizer_holds_its_namespace(world: World) -> None:
    async with world.nodes("namespaces"):
        await create_namespace(world, "team")
        await create(world, CONFIG_MAPS, "c", metadata={"finalizers": ["example.com/hold"]})
        await world.user.delete(NAMESPACES, "", "team")
        await asyncio.sleep(30)
        assert not await world.is_gone(NAMESPACES, "team")
        patch = {"metadata": {"finalizers": None}}
        await world.user.merge_patch(CONFIG_MAPS, "team", "c", patch)
        await asyncio.sleep(2)
        assert await world.is_gone(NAMESPACES, "team")


async def test_a_namespace_that_nobody_deleted_keeps_its_contents(world: World) -> None:
    async with world.nodes("namespaces"):
        await create_namespace(world, "team")
        await create(world, CONFIG_MAPS, "c")
        await asyncio.sleep(60)
        assert not await world.is_gone(CONFIG_MAPS, "c", "team")


async def test_a_namespace_deleted_while_nobody_looked_goes_too(world: World) -> None:
    await create_namespace(world, "team")
    await create(world, CONFIG_MAPS, "c")
    await world.user.delete(NAMESPACES, "", "team")
    async with world.nodes("namespaces"):
        await asyncio.sleep(3)
        assert await world.is_gone(NAMESPACES, "team")


async def test_a_new_namespace_of_an_old_name_keeps_its_contents(world: World) -> None:
    async with world.nodes("namespaces", rules=(watch_lag("namespaces", 20.0),)):
        await create_namespace(world, "team")
        await world.user.delete(NAMESPACES, "", "team")
        await world.eventually(lambda: world.is_gone(NAMESPACES, "team"))
        await create_namespace(world, "team")
        await create(world, CONFIG_MAPS, "c")
        label = {"metadata": {"labels": {"a": "b"}}}
        await world.user.merge_patch(NAMESPACES, "", "team", label)
        await asyncio.sleep(60)
        assert not await world.is_gone(CONFIG_MAPS, "c", "team")
