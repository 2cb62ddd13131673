"""What `flow_control.pauses` relies on, at a real API server: the body tells who refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.kube.responses import Response, parse_status, read_body
from controller.kube.transport import Request
from tests.integration.harness import World

pytestmark = [pytest.mark.real_only, pytest.mark.timeout(240)]

TENANT = {"impersonate-user": "tenant"}
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
UID = "x-kubernetes-pf-flowschema-uid"


@pytest.mark.vital
async def test_priority_and_fairness_refuses_without_a_status_and_a_handler_with_one(world: World):
    try:
        await jail_the_tenant(world)
        refused = await world.eventually(lambda: refused_list(world), seconds=60, pause=1)
    finally:
        for path in ("flowschemas", "prioritylevelconfigurations"):
            await send(world, "DELETE", f"{FLOWS}/{path}/jail")
    assert parse_status(refused) is None
    assert 1 <= int(refused.headers["retry-after"]) <= 32

    evicted = await evict_beyond_the_budget(world)
    status = parse_status(evicted)
    assert status is not None
    assert (status.code, status.reason) == (429, "TooManyRequests")

    assert UID in refused.headers
    assert UID in evicted.headers, "the header is in every answer, so it tells nothing"


async def refused_list(world: World) -> Response | None:
    """One of many lists at once that was refused."""
    answers = await asyncio.gather(
        *(send(world, "GET", "/api/v1/pods", headers=TENANT) for _ in range(40))
    )
    return next((answer for answer in answers if answer.status == 429), None)


async def jail_the_tenant(world: World) -> None:
    """Let Priority and Fairness refuse what a certain user asks for."""
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    everything = {
        "subjects": [{"kind": "User", "user": {"name": "tenant"}}],
        "resourceRules": [
            {
                "apiGroups": ["*"],
                "resources": ["*"],
                "verbs": ["*"],
                "namespaces": ["*"],
                "clusterScope": True,
            }
        ],
    }
    level = {"metadata": {"name": "jail"}, "spec": {"type": "Limited", "limited": limited}}
    schema = {
        "metadata": {"name": "jail"},
        "spec": {
            "matchingPrecedence": 5,
            "priorityLevelConfiguration": {"name": "jail"},
            "rules": [everything],
        },
    }
    assert (await send(world, "POST", f"{FLOWS}/prioritylevelconfigurations", level)).ok
    assert (await send(world, "POST", f"{FLOWS}/flowschemas", schema)).ok


async def evict_beyond_the_budget(world: World) -> Response:
    """The answer to an eviction that a disruption budget forbids."""
    pods = f"/api/v1/namespaces/{world.namespace}/pods"
    budgets = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    labels = {"app": "kept"}
    container = {"name": "c", "image": "x"}
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [container]}}
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await send(world, "POST", pods, pod)).ok
    await world.eventually(lambda: runs(world), seconds=30)  # no budget protects it before
    assert (await send(world, "POST", budgets, budget)).ok
    return await send(world, "POST", f"{pods}/p/eviction", eviction)


async def runs(world: World) -> bool:
    pod = await world.user.get_raw(PODS, world.namespace, "p")
    return pod["status"].get("phase") == "Running"


async def send(
    world: World,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One request without pauses and retries."""
    fields = {"content-type": "application/json", **(headers or {})}
    data = None if body is None else json.dumps(body).encode()
    status, found, chunks = await world.transport.request(
        Request(method, path, headers=fields, body=data)
    )
    return Response(status, found, await read_body(status, chunks))
