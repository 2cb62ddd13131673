"""A dry run of any verb and subresource answers as the request does, and stores nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.devcluster.apiserver.authentication import TokenIssuer
from tests.devcluster.apiserver.definitions import definition
from tests.devcluster.apiserver.support import (
    APPLY,
    CRDS,
    EPOCH,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    config_map,
    pod,
)

MARK: dict[str, Any] = {"metadata": {"labels": {"tried": "yes"}}}
JSON_MARK = [{"op": "add", "path": "/metadata/labels", "value": {"tried": "yes"}}]


CORE, LEASES = "/api/v1/namespaces/{ns}", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
CONFIG, PODS, THINGS = (
    f"{CORE}/configmaps",
    f"{CORE}/pods",
    "/apis/{group}/v1/namespaces/{ns}/things",
)


@dataclass(frozen=True)
class Try:
    """A request that would change something.

    Attributes:
        method: of the request.
        path: of the request.
        body: of the request; that of an update is laid over what is there.
        media_type: of the body.
        status: of the answer.
        query: besides the dry run.
    """

    method: str
    path: str
    body: Any = None
    media_type: str = "application/json"
    status: int = 200
    query: dict[str, str] = field(default_factory=dict)


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
TARGET = {"kind": "Node", "name": "n"}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}, "target": TARGET}
APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"tried": "yes"}}}
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "new"}}
NEW = APPLIED | {"metadata": {"name": "new"}}
ME = {"fieldManager": "me"}
TRIES = {
    "create": Try("POST", PODS, pod("new"), status=201),
    "create by update": Try("PUT", f"{LEASES}/new", LEASE, status=201),
    "create by apply": Try("PATCH", f"{CONFIG}/new", NEW, APPLY, 201, ME),
    "update": Try("PUT", f"{CONFIG}/a", MARK),
    "merge patch": Try("PATCH", f"{CONFIG}/a", MARK, MERGE),
    "JSON patch": Try("PATCH", f"{CONFIG}/a", JSON_MARK, JSON_PATCH),
    "strategic patch": Try("PATCH", f"{CONFIG}/a", MARK, STRATEGIC),
    "apply": Try("PATCH", f"{CONFIG}/a", APPLIED, APPLY, 200, ME),
    "update that ends a deletion": Try("PUT", f"{CONFIG}/held", {"metadata": {"finalizers": []}}),
    "delete": Try("DELETE", f"{CONFIG}/a"),
    "graceful delete": Try("DELETE", f"{PODS}/a"),
    "delete at once": Try("DELETE", f"{PODS}/a", query={"gracePeriodSeconds": "0"}),
    "deletecollection": Try("DELETE", CONFIG),
    "status update": Try("PUT", f"{PODS}/a/status", {"status": {"message": "tried"}}),
    "status": Try("PATCH", f"{PODS}/a/status", {"status": {"message": "tried"}}, MERGE),
    "binding": Try("POST", f"{PODS}/b/binding", BINDING, status=201),
    "eviction": Try("POST", f"{PODS}/a/eviction", EVICTION, status=201),
    "token": Try("POST", f"{CORE}/serviceaccounts/a/token", {"spec": {}}, status=201),
    "finalize": Try("PUT", f"{CORE}/finalize", {"spec": {"finalizers": ["example.org/a"]}}),
    "scale": Try("PATCH", f"{THINGS}/a/scale", {"spec": {"replicas": 5}}, MERGE),
}
READS = {"log", "proxy", "exec", "attach", "portforward"}
"""Subresources that store nothing."""


@pytest.fixture
async def group(api):
    """Whatever the requests are about; the API group of Things."""
    if not api.is_real:
        api.server.hooks.tokens = TokenIssuer(api.server.store, b"key", lambda: EPOCH)
    name = f"g{uuid.uuid4().hex[:8]}.test.dev"
    body = definition(name)
    for version in body["spec"]["versions"]:
        version["subresources"] = {"status": {}, "scale": SCALE}
    await api.define(body)
    thing = {"apiVersion": f"{name}/v1", "kind": "Thing", "metadata": {"name": "a"}}
    await api.create(api.path("things", group=f"{name}/v1"), thing | {"spec": {"size": 2}})
    await api.create(api.path("configmaps"), config_map("a", key="value"))
    held = config_map("held") | {"metadata": {"name": "held", "finalizers": ["example.org/a"]}}
    await api.create(api.path("configmaps"), held)
    await api.delete(api.path("configmaps", "held"))
    for each in ("a", "b"):
        await api.create(api.path("pods"), pod(each))
    await api.create(api.path("serviceaccounts"), {"metadata": {"name": "a"}})
    yield name
    await api.patch(api.path("configmaps", "held"), {"metadata": {"finalizers": None}})
    await api.delete(f"{CRDS}/things.{name}")


SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count"}


async def stored(api, group) -> list[Any]:
    """All that the requests could change."""
    collections = (CONFIG, PODS, LEASES, THINGS, f"{CORE}/serviceaccounts")
    found = [await api.get(each.format(ns=api.namespace, group=group)) for each in collections]
    items = [item for answer in found for item in answer.body["items"]]
    return [*items, (await api.get(CORE.format(ns=api.namespace))).body]


async def tried(api, group, what, **query):
    each = TRIES[what]
    path, body = each.path.format(ns=api.namespace, group=group), each.body
    if each.method == "PUT" and each.status == 200:
        present = (await api.get(path.removesuffix("/finalize"))).body
        body = {**present, **body, "metadata": present["metadata"] | body.get("metadata", {})}
    kind = {"content_type": each.media_type}
    return await api.call(each.method, path, body, **kind, **each.query, **query)


@pytest.mark.parametrize("what", TRIES)
async def test_a_dry_run_stores_nothing(api, group, what):
    before = await stored(api, group)
    answer = await tried(api, group, what, dryRun="All")
    assert answer.status == TRIES[what].status, answer.body
    assert await stored(api, group) == before
    if what != "token":
        answer = await tried(api, group, what)
        assert answer.status == TRIES[what].status, answer.body
        assert await stored(api, group) != before


@pytest.mark.parametrize("what", TRIES)
async def test_another_value_than_all_is_refused(api, group, what):
    before = await stored(api, group)
    answer = await tried(api, group, what, dryRun="Some")
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert await stored(api, group) == before


async def test_every_subresource_that_is_served_is_tried(api, group):
    groups = await api.get("/apis")
    versions = [each["preferredVersion"]["groupVersion"] for each in groups.body["groups"]]
    served: set[str] = set()
    for path in ("/api/v1", *(f"/apis/{each}" for each in versions)):
        resources = (await api.get(path)).body["resources"]
        served |= {name for each in resources if (name := each["name"].partition("/")[2])}
    ours = served if not api.is_real else served & TRIES.keys()
    assert ours - READS <= TRIES.keys()
