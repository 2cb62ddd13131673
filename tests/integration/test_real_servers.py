"""What hurts a tenant on a real API server: odd objects, webhooks, another writer.

The same is tried in every way on the embedded one; here the server's own words and habits count.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from controller.apimachinery.certificates import issued_once
from controller.apimachinery.conditions import find_condition
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, example_cluster
from tests.integration.test_failing_keys import ready, warnings
from tests.integration.test_two_writers import RIVAL, contested, fight, writes

pytestmark = [pytest.mark.real_only, pytest.mark.real_time, pytest.mark.timeout(240)]

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NOBODY = "https://127.0.0.1:9/validate"


@asynccontextmanager
async def webhook(
    world: World, resource: str, url: str, authority: bytes = b""
) -> AsyncIterator[str]:
    """An admission webhook for what is created in this namespace; gives its name."""
    name = f"{resource}.{world.namespace}.example.com"
    client = {"url": url} | (
        {"caBundle": base64.b64encode(authority).decode()} if authority else {}
    )
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"]}
    here = {"kubernetes.io/metadata.name": world.namespace}
    hook = {
        "name": name,
        "clientConfig": client,
        "rules": [rule | {"resources": [resource]}],
        "namespaceSelector": {"matchLabels": here},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }
    await world.user.request_json("POST", WEBHOOKS, body=body)
    try:
        await world.settle(2)  # until the API server has heard of it
        yield name
    finally:
        await world.user.request_json("DELETE", f"{WEBHOOKS}/{name}")


async def test_a_cluster_of_600_levels_costs_only_itself(world: World):
    operator = world.start_operator()
    deep: Any = 1
    for _ in range(600):
        deep = {"a": deep}
    body = example_cluster()
    body["spec"]["headGroupSpec"]["template"]["spec"]["odd"] = deep
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.create_cluster("healthy")
    await world.eventually(lambda: world.is_ready("healthy"))
    found = await world.user.request_json("GET", RAYCLUSTERS.path(world.namespace, "example"))
    condition = find_condition(found["status"]["conditions"], "Ready") or {}
    assert (condition["status"], condition["reason"]) == ("False", "InvalidRayClusterSpec")
    assert operator.running


@pytest.mark.vital
@pytest.mark.parametrize("resource", ["pods", "services"])
async def test_a_webhook_that_does_not_answer_is_named_and_no_pod_precedes_its_service(
    world: World, resource: str
):
    world.start_operator()
    async with webhook(world, resource, NOBODY) as name:
        await world.create_cluster()

        async def is_named() -> bool:
            return (await ready(world, RAYCLUSTERS)).get("reason") == "AdmissionUnavailable"

        await world.eventually(is_named, seconds=60)
        assert name in (await ready(world, RAYCLUSTERS))["message"]
        assert any(name in note for _, note in await warnings(world, "RayCluster"))
        assert not world.journal.created
    await world.eventually(world.is_ready, seconds=120)


@pytest.mark.vital
async def test_refusals_that_vary_are_not_repeated_in_haste(world: World):
    refused: list[str] = []

    async def refuse(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())["request"]
        refused.append(asked["uid"])
        status = {"message": f"attempt {len(refused)} of {asked['uid']} is against the policy"}
        answer = {"uid": asked["uid"], "allowed": False, "status": status}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        )

    application = web.Application()
    application.router.add_post("/validate", refuse)
    now, day = datetime.now(UTC), timedelta(days=1)
    authority, certificate = issued_once("webhook", ("127.0.0.1",), now, day)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate.context())
        await site.start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}/validate"
        operator = world.start_operator()
        async with webhook(world, "pods", url, authority):
            await world.create_cluster()
            await world.settle(60)
            found = await ready(world, RAYCLUSTERS)
            assert found["reason"] == "AdmissionDenied"
            assert "is against the policy" in found["message"]
            assert 2 <= len(refused) <= 16, "the delay doubles, whatever the text"
            stored = [
                entry
                for entry in operator.transport.journal.entries
                if entry.attributes.writes and entry.attributes.subresource == "status"
            ]
            assert len(stored) <= 6
        await world.eventually(world.is_ready, seconds=120)
    finally:
        await runner.cleanup()


@pytest.mark.vital
async def test_another_writer_is_named_and_not_fought(world: World):
    operator = world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    since = len(operator.transport.journal.entries)
    theirs = {"spec": {"selector": {"ray.io/node-type": "worker"}}}
    fight(world, SERVICES, "example-head-svc", theirs)
    await world.settle(60)
    assert 3 <= writes(operator, "services", "example-head-svc", since) <= 9
    said = await contested(world)
    assert f"another writer ({RIVAL}) keeps changing spec.selector.ray.io/node-type" in said


POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
PANICS = (
    'JSONPatch{op: "add", path: "/spec/tolerations", '
    'value: [Object.spec.tolerations{key: "gpu", operator: "Exists"}]}'
)
"""Kubernetes 1.36 panics when it converts a list of objects."""


@asynccontextmanager
async def panicking_policy(world: World, resource: str) -> AsyncIterator[None]:
    """A policy that makes the API server panic when something is created in this namespace."""
    name = f"panics.{world.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    policy = {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": here,
                "resourceRules": [rule | {"resources": [resource]}],
            },
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{PANICS}]"}}],
        },
    }
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    await world.user.request_json("POST", POLICIES, body=policy)
    await world.user.request_json("POST", BINDINGS, body=binding)
    try:
        await world.settle(3)  # until the API server has heard of it
        yield
    finally:
        await world.user.request_json("DELETE", f"{BINDINGS}/{name}")
        await world.user.request_json("DELETE", f"{POLICIES}/{name}")


@pytest.mark.vital
async def test_a_policy_that_makes_the_api_server_panic_is_survived_and_makes_nothing_twice(
    world: World,
):
    operator = world.start_operator()

    async def unconfirmed() -> bool:
        condition = await ready(world, RAYCLUSTERS)
        return (condition.get("status"), condition.get("reason")) == ("False", "WriteUnconfirmed")

    async with panicking_policy(world, "pods"):
        await world.create_cluster(replicas=2)
        await world.eventually(unconfirmed, seconds=90)
        await world.settle(10)
        assert not world.journal.created
        assert operator.running
    await world.eventually(world.is_ready, seconds=120)
    assert len(world.journal.created) == 3
