"""Garbage, protected volume claims, and the end of namespaces, on the embedded API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, SERVICES, Resource
from controller.testing.faults import DelayedRequest, Rule, watch_gone, watch_lag
from devcluster.nodes.pods import PODS
from tests.devcluster.nodes.conftest import World

FLEETS = Resource("example.com", "v1", "fleets", "Fleet", KubeObject)


def owned_by(
    owner: ObjectMeta,
    *,
    kind: str = "ConfigMap",
    api_version: str = "v1",
    uid: str = "",
    **more: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": uid or owner.uid,
        **more,
    }


async def config_map(
    world: World, name: str, *owners: dict[str, Any], finalizers: tuple[str, ...] = ()
) -> ObjectMeta:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": list(owners),
            "finalizers": list(finalizers),
        },
    }
    return (await world.user.create(CONFIG_MAPS, "default", body)).metadata


async def references(world: World, name: str) -> list[str]:
    found = await world.user.get(CONFIG_MAPS, "default", name)
    return [reference.name for reference in found.metadata.owner_references]


async def test_an_owner_that_the_cache_does_not_show_yet_keeps_its_dependents(
    world: World,
) -> None:
    async with world.nodes("gc", rules=(watch_lag("configmaps", 30.0),)):
        owner = await config_map(world, "owner")
        await world.create_pod("child", owners=[owned_by(owner)])
        await asyncio.sleep(10)
        assert not await world.is_gone(PODS, "child")


async def test_an_owner_that_went_before_any_cache_showed_it_has_lost_its_dependents(
    world: World,
) -> None:
    late = Rule(DelayedRequest(10.0), "configmaps", frozenset({"list", "watch"}), skip=1)
    async with world.nodes("gc", rules=(watch_gone("configmaps", 2), late)):
        await config_map(world, "first")
        await asyncio.sleep(1)
        owner = await config_map(world, "owner")
        await world.create_pod("child", owners=[owned_by(owner)])
        await asyncio.sleep(2)
        assert not await world.is_gone(PODS, "child")
        await world.user.delete(CONFIG_MAPS, "default", "owner")
        await asyncio.sleep(60)
        assert await world.is_gone(PODS, "child")


async def test_one_owner_of_two_is_enough_and_the_other_reference_is_dropped(
    world: World,
) -> None:
    async with world.nodes("gc"):
        one, two = await config_map(world, "one"), await config_map(world, "two")
        await config_map(world, "child", owned_by(one), owned_by(two))
        await world.user.delete(CONFIG_MAPS, "default", "one")
        await asyncio.sleep(1)
        assert await references(world, "child") == ["two"]
        await world.user.delete(CONFIG_MAPS, "default", "two")
        await asyncio.sleep(1)
        assert await world.is_gone(CONFIG_MAPS, "child")


async def test_in_the_foreground_an_owner_waits_for_dependents_that_block_it(
    world: World,
) -> None:
    async with world.nodes("gc", "kubelet", termination_delay=5.0):
        owner = await config_map(world, "owner")
        reference = owned_by(owner, blockOwnerDeletion=True)
        await world.create_pod("child", owners=[reference])
        await world.eventually(lambda: world.is_ready("child"))
        await world.user.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
        await asyncio.sleep(4)
        assert (await world.pod("child")).metadata.terminating
        assert not await world.is_gone(CONFIG_MAPS, "owner")
        await asyncio.sleep(2)
        assert await world.is_gone(PODS, "child")
        assert await world.is_gone(CONFIG_MAPS, "owner")


async def test_foreground_deletion_goes_down_to_the_grandchildren(world: World) -> None:
    async with world.nodes("gc"):
        owner = await config_map(world, "owner")
        child = await config_map(world, "child", owned_by(owner, blockOwnerDeletion=True))
        held = ("example.com/hold",)
        reference = owned_by(child, blockOwnerDeletion=True)
        await config_map(world, "grandchild", reference, finalizers=held)
        await world.user.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
        await asyncio.sleep(10)
        for name in ("owner", "child", "grandchild"):
            found = await world.user.get(CONFIG_MAPS, "default", name)
            assert found.metadata.terminating, name
        patch = {"metadata": {"finalizers": None}}
        await world.user.merge_patch(CONFIG_MAPS, "default", "grandchild", patch)
        await asyncio.sleep(1)
        assert await world.is_gone(CONFIG_MAPS, "owner")


async def test_orphans_stay_and_forget_their_owner(world: World) -> None:
    async with world.nodes("gc"):
        owner = await config_map(world, "owner")
        other = await config_map(world, "other")
        await config_map(world, "child", owned_by(owner), owned_by(other))
        await world.user.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
        await asyncio.sleep(1)
        assert await world.is_gone(CONFIG_MAPS, "owner")
        assert await references(world, "child") == ["other"]


async def test_nothing_is_let_go_before_all_its_dependents_can_be_known(world: World) -> None:
    rule = Rule(DelayedRequest(10.0), "fleets.example.com", frozenset({"list", "watch"}))
    async with world.nodes("gc", rules=(rule,)):
        owner = await config_map(world, "owner")
        await world.user.create(CRDS, "", crd())
        await world.eventually(lambda: served(world))
        await fleet(world, owned_by(owner))
        await asyncio.sleep(1)  # the new kind is discovered, and not listed yet
        await world.user.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
        await asyncio.sleep(60)
        assert await world.is_gone(CONFIG_MAPS, "owner")
        assert not await world.is_gone(FLEETS, "f")


async def test_an_owner_of_an_unknown_kind_keeps_its_dependents_until_the_kind_is_known(
    world: World,
) -> None:
    async with world.nodes("gc"):
        ghost = ObjectMeta(name="ghost", uid="0000")
        reference = owned_by(ghost, kind="Fleet", api_version="example.com/v1")
        await config_map(world, "child", reference)
        await asyncio.sleep(60)
        assert not await world.is_gone(CONFIG_MAPS, "child")
        await world.user.create(CRDS, "", crd())
        await asyncio.sleep(5)
        assert await world.is_gone(CONFIG_MAPS, "child")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_what_happened_while_nobody_looked_is_made_up_for(
    world: World, propagation: str
) -> None:
    owner = await config_map(world, "owner")
    await config_map(world, "child", owned_by(owner, blockOwnerDeletion=True))
    await world.user.delete(CONFIG_MAPS, "default", "owner", propagation=propagation)
    async with world.nodes("gc"):
        await asyncio.sleep(1)
        assert await world.is_gone(CONFIG_MAPS, "child")
        assert await world.is_gone(CONFIG_MAPS, "owner")


async def fleet(world: World, *owners: dict[str, Any]) -> ObjectMeta:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Fleet",
        "metadata": {"name": "f", "ownerReferences": list(owners)},
    }
    return (await world.user.create(FLEETS, "default", body)).metadata


async def served(world: World) -> bool:
    return bool(await world.user.request_json("GET", "/apis/example.com/v1"))


def crd() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fleets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "fleets",
                "singular": "fleet",
                "kind": "Fleet",
                "listKind": "FleetList",
            },
            "versions": [version],
        },
    }


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
