"""A webhook puts its container first in every pod; the whole operator looks at Ray's."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, embedded_world, live, role
from tests.integration.rays import Rays, forever
from tests.integration.test_rayjob_bugs import running
from tests.neighbours.sicknesses.admission import inject_sidecar
from tests.ray.job.rayjobs import is_head_lost
from tests.samples import case

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(300)]


def with_webhook(world: World) -> Any:
    """A mesh changes each pod at its creation, on the API server."""
    assert world.server is not None
    writer = world.server._handler.writer
    create = writer.create

    def mutated(of: Any, namespace: str, obj: dict[str, Any], *rest: Any, **more: Any) -> Any:
        if of.table == "pods":
            obj = msgspec.json.decode(msgspec.json.encode(obj))
            inject_sidecar(obj)
        return create(of, namespace, obj, *rest, **more)

    return patch.object(writer, "create", mutated)


def head_of(world: World) -> Pod:
    (head,) = [pod for pod in world.journal.present.values() if role(pod) == "head" and live(pod)]
    assert head.spec.containers[0].name == "istio-proxy"
    return head


async def report(world: World, pod: Pod, **ray: Any) -> None:
    """Change what the kubelet reports of the head's Ray container, and of no other."""
    raw = msgspec.json.decode(msgspec.json.encode(pod.status.container_statuses))
    statuses = [each | (ray if each["name"] == "ray-head" else {}) for each in raw]
    assert statuses != raw
    patched = {"status": {"containerStatuses": statuses}}
    meta = pod.metadata
    await world.user.merge_patch(PODS, meta.namespace, meta.name, patched, subresource="status")


async def test_a_dead_head_behind_a_proxy_is_replaced():
    (manifest,) = case("20-injected-container-first.yaml")
    async with embedded_world() as world:
        with with_webhook(world):
            world.start_operator()
            await world.user.create(RAYCLUSTERS, world.namespace, manifest)
            await world.eventually(lambda: world.is_ready("injected"), seconds=120)
            dead = head_of(world)
            await report(world, dead, state={"terminated": {"exitCode": 1, "reason": "Error"}})

            def is_replaced() -> bool:
                heads = [each for each in world.journal.created.values() if role(each) == "head"]
                return dead.metadata.uid not in world.journal.present and len(heads) == 2

            await world.eventually(is_replaced, seconds=120)


async def test_a_rayjob_does_not_go_on_without_its_job():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        rays.ray.course = lambda _body: forever()
        with with_webhook(world):
            rays.start_operator()
            await rays.create()
            await running(rays)
            await report(world, head_of(world), restartCount=1)
            assert is_head_lost(await rays.reaches("Failed", seconds=120))
