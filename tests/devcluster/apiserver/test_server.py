"""The embedded server's own face: observers, counters, rules, hooks, determinism."""

from __future__ import annotations

import asyncio
import random

import pytest

from controller.kube.transport import Request
from devcluster.apiserver import ApiServer
from devcluster.apiserver.messages import bytes_response
from tests.devcluster.apiserver.support import EPOCH, EmbeddedApi, config_map, pod


async def test_observers_hear_of_every_transition_at_once(embedded):
    seen = []
    embedded.server.on_write.append(lambda event: seen.append((event.type, event.key)))
    await embedded.create(embedded.path("configmaps"), config_map("a"))
    assert seen == [("ADDED", "default/a")]
    await embedded.patch(embedded.path("configmaps", "a"), {"data": {"x": "1"}})
    await embedded.delete(embedded.path("configmaps", "a"))
    assert seen[1:] == [("MODIFIED", "default/a"), ("DELETED", "default/a")]


async def test_an_event_shows_the_versions_before_and_after(embedded):
    seen = []
    await embedded.create(embedded.path("configmaps"), config_map("a", x="1"))
    embedded.server.on_write.append(seen.append)
    await embedded.patch(embedded.path("configmaps", "a"), {"data": {"x": "2"}})
    (event,) = seen
    assert event.table == "configmaps"
    assert event.previous.object["data"] == {"x": "1"}
    assert event.current.object["data"] == {"x": "2"}
    assert event.current.object["metadata"]["resourceVersion"] == str(event.revision)


async def test_requests_are_counted_by_client_verb_and_resource(embedded):
    await embedded.get(embedded.path("pods"), user_agent="one")
    await embedded.get(embedded.path("pods"), user_agent="one")
    await embedded.get(embedded.path("pods", "none"), user_agent="two")
    await embedded.patch(
        f"{embedded.path('pods', 'none')}/status", {"status": {}}, user_agent="two"
    )
    await embedded.get(
        embedded.path("jobs", group="batch/v1"), user_agent="two", watch="1", timeoutSeconds="1"
    )
    assert embedded.server.audit.requests == {
        ("one", "list", "pods"): 2,
        ("two", "get", "pods"): 1,
        ("two", "patch", "pods/status"): 1,
        ("two", "watch", "jobs.batch"): 1,
    }


async def test_rules_forbid_as_rbac_does(embedded):
    embedded.server.audit.authorizer = lambda request: (
        (request.verb, request.resource) != ("list", "pods")
    )
    answer = await embedded.get(embedded.path("pods"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods is forbidden: User "kubernetes-admin" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    everywhere = await embedded.get("/api/v1/pods")
    assert everywhere.message.endswith("at the cluster scope")
    assert (await embedded.get(embedded.path("configmaps"))).status == 200


async def test_rules_see_subresources_and_answer_reviews(embedded):
    embedded.server.audit.authorizer = lambda request: request.resource != "pods/status"
    await embedded.create(embedded.path("pods"), pod("a"))
    answer = await embedded.patch(f"{embedded.path('pods', 'a')}/status", {})
    assert 'cannot patch resource "pods/status"' in answer.message
    review = {
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "subresource": "status"}}
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await embedded.create(path, review)).body["status"]["allowed"] is False


async def test_logs_and_proxies_are_left_to_hooks(embedded):
    await embedded.create(embedded.path("pods"), pod("a"))
    log = f"{embedded.path('pods', 'a')}/log"
    assert (await embedded.get(log)).status == 503

    async def hook(request, where):
        return bytes_response(200, f"{where.name} {where.rest}".encode(), "text/plain")

    embedded.server.hooks.pod_log = hook
    embedded.server.hooks.service_proxy = hook
    assert (await embedded.get(log)).text == b"a "
    assert (await embedded.get(f"{embedded.path('pods', 'none')}/log")).status == 404
    proxy = "/api/v1/namespaces/default/services/http:kubernetes:8265/proxy/api/jobs/"
    assert (await embedded.get(proxy)).text == b"http:kubernetes:8265 /api/jobs/"


async def test_the_same_seed_gives_the_same_objects():
    async def uids(seed: int):
        api = EmbeddedApi()
        api.server = ApiServer(
            wall=lambda: EPOCH, clock=asyncio.get_running_loop(), rng=random.Random(seed)
        )
        api.namespace = "default"
        answer = await api.create(
            api.path("pods"), {**pod("x"), "metadata": {"generateName": "a-"}}
        )
        return answer.text

    assert await uids(1) == await uids(1) != await uids(2)


async def test_the_log_is_bounded(embedded):
    table = embedded.server.store.table("configmaps")
    table._history = 10
    for number in range(30):
        await embedded.create(embedded.path("configmaps"), config_map(f"a{number}"))
    assert table.end - table.start == 10
    assert table.compacted == embedded.server.store.revision - 10


@pytest.mark.parametrize("user", ["", "alice"])
async def test_an_impersonated_user_is_named(embedded, user):
    embedded.server.audit.authorizer = lambda request: False
    headers = {"Impersonate-User": user} if user else {"Authorization": "Bearer token-name"}
    status, _, chunks = await embedded.server.request(
        Request("GET", "/api/v1/pods", headers=headers)
    )
    text = b"".join([chunk async for chunk in chunks]).decode()
    assert status == 403
    assert f'User \\"{user or "token-name"}\\"' in text
