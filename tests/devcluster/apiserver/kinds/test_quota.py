"""Resource quotas: what they refuse, in the words that users know, and how they count."""

from __future__ import annotations

import asyncio

import pytest

from tests.devcluster.apiserver.support import config_map, pod


def hungry(name: str, requests=None, limits=None):
    body = pod(name)
    body["spec"]["containers"][0]["resources"] = {
        "requests": requests or {},
        "limits": limits or {},
    }
    return body


@pytest.fixture
def limit(api):
    async def create(**hard: str):
        body = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        await api.create(api.path("resourcequotas"), body)
        await used(api)

    return create


async def used(api, known: str = "", **expected: str):
    """What the quota counts; a real server needs a moment to see it or to count again."""
    async with asyncio.timeout(60):
        while True:
            status = (await api.get(api.path("resourcequotas", "q"))).body.get("status", {})
            counted = status.get("used", {})
            if counted and known in {"", *counted} and expected.items() <= counted.items():
                return counted
            await asyncio.sleep(0.05)


async def test_a_pod_beyond_the_count_is_refused(api, limit):
    await limit(pods="1")
    assert (await api.create(api.path("pods"), pod("a"))).status == 201
    await used(api, pods="1")
    refused = await api.create(api.path("pods"), pod("b"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["details"] == {"name": "b", "kind": "pods"}
    assert refused.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


async def test_a_pod_beyond_cpu_and_memory_is_refused(api, limit):
    await limit(**{"requests.cpu": "1", "memory": "1Gi", "pods": "5"})
    body = hungry("a", {"cpu": "600m", "memory": "512Mi"})
    assert (await api.create(api.path("pods"), body)).status == 201
    await used(api, pods="1")
    refused = await api.create(
        api.path("pods"), hungry("b", {"cpu": "0.5", "memory": "768Mi"}), dryRun="All"
    )
    assert refused.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: memory=768Mi,requests.cpu=500m, '
        "used: memory=512Mi,requests.cpu=600m, limited: memory=1Gi,requests.cpu=1"
    )


async def test_what_a_quota_limits_must_be_said(api, limit):
    await limit(**{"requests.cpu": "1", "limits.memory": "1Gi", "requests.nvidia.com/gpu": "1"})
    body = pod("a")
    body["spec"]["containers"].append({"name": "side", "image": "busybox:1"})
    refused = await api.create(api.path("pods"), body)
    assert refused.message == (
        'pods "a" is forbidden: failed quota: q: must specify limits.memory for: main,side; '
        "requests.cpu for: main,side"
    )


async def test_deleted_pods_give_back_what_they_held(api, limit):
    await limit(pods="1")
    await api.create(api.path("pods"), pod("a"))
    await api.delete(api.path("pods", "a"))
    await used(api, pods="0")
    assert (await api.create(api.path("pods"), pod("b"))).status == 201


async def test_any_kind_can_be_counted(api, limit):
    await limit(**{"count/configmaps": "0", "count/leases.coordination.k8s.io": "0"})
    refused = await api.create(api.path("configmaps"), config_map("a"))
    assert refused.message.startswith(
        'configmaps "a" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: '
    )
    lease = {"metadata": {"name": "a"}}
    refused = await api.create(api.path("leases", group="coordination.k8s.io/v1"), lease)
    assert refused.status == 403
