"""EndpointSlices: the pure part, and the controller against the embedded API server."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from controller.kube.objects import Service
from controller.kube.resources import SERVICES
from devcluster.nodes.endpointslices import MOST_ENDPOINTS, slices_of
from devcluster.nodes.objects import ENDPOINT_SLICES
from devcluster.nodes.pods import PODS, KubeletPod
from tests.devcluster.nodes.conftest import World


def service(*ports: dict[str, Any], **spec: Any) -> Service:
    body = {
        "metadata": {"name": "s", "namespace": "default", "uid": "u-s"},
        "spec": {"selector": {"app": "a"}, "ports": list(ports), **spec},
    }
    return msgspec.convert(body, Service)


def pod(name: str, *, ready: bool = True, deleted: bool = False, **more: Any) -> KubeletPod:
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"u-{name}",
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
        },
        "spec": {
            "nodeName": "n",
            "containers": [
                {"name": "main", "ports": [{"name": "http", "containerPort": more.get("port", 1)}]}
            ],
        },
        "status": {
            "phase": more.get("phase", "Running"),
            "podIP": more.get("ip", "10.244.0.1"),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return msgspec.convert(body, KubeletPod)


@pytest.mark.parametrize(
    ("ready", "deleted", "publish", "expected"),
    [
        (True, False, False, {"ready": True, "serving": True, "terminating": False}),
        (False, False, False, {"ready": False, "serving": False, "terminating": False}),
        (True, True, False, {"ready": False, "serving": True, "terminating": True}),
        (False, False, True, {"ready": True, "serving": False, "terminating": False}),
        (False, True, True, {"ready": True, "serving": False, "terminating": True}),
    ],
)
def test_conditions_of_an_endpoint(
    ready: bool, deleted: bool, publish: bool, expected: Any
) -> None:
    (only,) = slices_of(
        service({"port": 80}, publishNotReadyAddresses=publish),
        [pod("p", ready=ready, deleted=deleted)],
    )
    assert only.endpoints[0]["conditions"] == expected
    assert only.endpoints[0]["targetRef"]["uid"] == "u-p"


def test_named_target_ports_are_those_of_each_pod() -> None:
    named = service({"name": "web", "port": 80, "targetPort": "http"}, {"name": "x", "port": 7})
    slices = slices_of(named, [pod("a", port=1), pod("b", port=2), pod("c", port=1)])
    ports = [{port["name"]: port["port"] for port in found.ports} for found in slices]
    names = [[e["targetRef"]["name"] for e in found.endpoints] for found in slices]
    assert sorted(zip(names, ports, strict=True)) == [
        (["a", "c"], {"web": 1, "x": 7}),
        (["b"], {"web": 2, "x": 7}),
    ]


def test_a_named_port_that_a_pod_does_not_have_is_left_out() -> None:
    (only,) = slices_of(service({"name": "web", "port": 80, "targetPort": "grpc"}), [pod("a")])
    assert only.ports == []


def test_very_many_endpoints_are_spread_over_slices() -> None:
    pods = [pod(f"p-{number:05}") for number in range(MOST_ENDPOINTS + 1)]
    assert [len(found.endpoints) for found in slices_of(service({"port": 1}), pods)] == [1000, 1]


async def create_service(world: World, name: str = "web", **spec: Any) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8000}],
            **spec,
        },
    }
    await world.user.create(SERVICES, "default", body)


async def slices(world: World, name: str = "web") -> list[Any]:
    label = f"kubernetes.io/service-name={name}"
    found = await world.user.list(ENDPOINT_SLICES, "default", label_selector=label)
    return found.items


async def ready(world: World, name: str = "web") -> int:
    return sum(
        bool(each["conditions"]["ready"])
        for found in await slices(world, name)
        for each in found.endpoints or list[dict[str, Any]]()
    )


@pytest.mark.parametrize("spec", [{}, {"clusterIP": "None"}])
async def test_endpoints_follow_the_pods(world: World, spec: Any) -> None:
    async with world.nodes("kubelet", "endpointslices", "gc"):
        await create_service(world, **spec)
        await world.create_pod("a", labels={"app": "web"})
        await world.create_pod("b", labels={"app": "web"})
        await world.create_pod("c", labels={"app": "other"})
        await asyncio.sleep(1.5)
        assert await ready(world) == 0
        await asyncio.sleep(1.5)
        (only,) = await slices(world)
        assert await ready(world) == 2
        assert only.metadata.name.startswith("web-")
        assert len(only.metadata.name) == len("web-") + 5
        (port,) = only.ports
        assert (port["name"], port["port"], port["protocol"]) == ("http", 8000, "TCP")
        pod = await world.pod("a")
        assert only.endpoints[0]["addresses"] == [pod.status.pod_ip]
        await world.user.delete(PODS, "default", "a")
        await asyncio.sleep(0.2)
        assert await ready(world) == 1
        await asyncio.sleep(3)
        assert len((await slices(world))[0].endpoints) == 1


async def test_a_pod_that_changes_its_labels_changes_its_service(world: World) -> None:
    async with world.nodes("kubelet", "endpointslices"):
        await create_service(world)
        await create_service(world, "api", selector={"app": "api"})
        await world.create_pod("a", labels={"app": "web"})
        await asyncio.sleep(3)
        assert (await ready(world), await ready(world, "api")) == (1, 0)
        await world.user.merge_patch(PODS, "default", "a", {"metadata": {"labels": {"app": "api"}}})
        await asyncio.sleep(1)
        assert (await ready(world), await ready(world, "api")) == (0, 1)


async def test_a_slice_that_is_needed_no_longer_goes(world: World) -> None:
    async with world.nodes("kubelet", "endpointslices"):
        await create_service(world, ports=[{"port": 80, "targetPort": "http"}])
        for number, name in enumerate(("a", "b")):
            port = {"name": "http", "containerPort": 8000 + number}
            container = {"name": "main", "image": "x", "ports": [port]}
            await world.create_pod(name, labels={"app": "web"}, containers=[container])
        await asyncio.sleep(3)
        assert len(await slices(world)) == 2
        await world.user.delete(PODS, "default", "a")
        await asyncio.sleep(3)
        (only,) = await slices(world)
        assert only.ports[0]["port"] == 8001
