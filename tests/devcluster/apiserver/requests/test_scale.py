"""The scale subresource, as `autoscaling/v1` has it, and dry runs of any verb."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from msgspec import Struct, field

from devcluster.apiserver.authentication import TokenIssuer
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


@pytest.fixture
async def things(api):
    """A path of a Thing whose `spec.size` can be scaled, and its group."""
    group = f"g{uuid.uuid4().hex[:8]}.test.dev"
    body = definition(group)
    for version in body["spec"]["versions"]:
        version["subresources"] = {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.nested.count",
                "labelSelectorPath": ".status.phase",
            },
        }
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        status["nested"] = {"type": "object", "properties": {"count": {"type": "integer"}}}
    await api.define(body)
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "labels": {"l": "v"}},
        "spec": {"size": 2},
    }
    created = await api.create(api.path("things", group=f"{group}/v1"), thing, fieldManager="me")
    assert created.status == 201, created.body
    yield api.path("things", "a", group=f"{group}/v1")
    await api.delete(f"{CRDS}/things.{group}")


def scale(thing, replicas, **metadata):
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": thing["metadata"]["name"]} | metadata,
        "spec": {"replicas": replicas},
    }


async def test_it_is_read_as_a_scale(api, things):
    status = {"status": {"nested": {"count": 1}, "phase": "app=a"}}
    thing = (await api.patch(f"{things}/status", status)).body
    answer = await api.get(f"{things}/scale")
    assert answer.status == 200
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert answer.body == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: thing["metadata"][key] for key in kept},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "app=a"},
    }


async def test_what_the_object_lacks_is_left_out(api, things):
    await api.patch(things, {"spec": {"size": 0}})
    answer = await api.get(f"{things}/scale")
    assert (answer.body["spec"], answer.body["status"]) == ({}, {"replicas": 0})


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        ("application/merge-patch+json", {"spec": {"replicas": 5}}),
        (JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 5}]),
    ],
)
async def test_a_patch_changes_the_number_and_nothing_else(api, things, content_type, patch):
    before = (await api.get(things)).body
    answer = await api.patch(f"{things}/scale", patch, content_type)
    assert (answer.status, answer.body["spec"]) == (200, {"replicas": 5})
    after = (await api.get(things)).body
    assert answer.revision == after["metadata"]["resourceVersion"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert after["spec"] == before["spec"] | {"size": 5}


async def test_a_dry_run_changes_nothing(api, things):
    patch = {"spec": {"replicas": 5}}
    answer = await api.patch(f"{things}/scale", patch, dryRun="All")
    assert answer.body["spec"] == {"replicas": 5}
    assert (await api.get(things)).body["spec"]["size"] == 2


async def test_an_update_may_demand_a_revision_and_a_uid(api, things):
    thing = (await api.get(things)).body
    own = {key: thing["metadata"][key] for key in ("uid", "resourceVersion")}
    assert (await api.replace(f"{things}/scale", scale(thing, 3, **own))).status == 200
    late = await api.replace(f"{things}/scale", scale(thing, 4, **own))
    assert (late.status, late.body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in late.message
    other = await api.replace(f"{things}/scale", scale(thing, 4, uid="other"))
    assert (other.status, other.body["reason"]) == (409, "Conflict")
    assert f"UID in precondition: other, UID in object meta: {own['uid']}" in other.message
    free = await api.replace(f"{things}/scale", scale(thing, 4))
    assert (free.status, free.body["spec"]) == (200, {"replicas": 4})


@pytest.mark.parametrize(
    ("replicas", "status", "words"),
    [
        (-1, 422, ".spec.size: Invalid value: -1: should be a non-negative integer]"),
        (11, 422, "spec.size: Invalid value: 11: spec.size in body should be less than or equal"),
        ("3", 400, "no kind is registered for the type v1.Scale in scheme"),
    ],
)
async def test_numbers_that_cannot_be_are_refused(api, things, replicas, status, words):
    thing = (await api.get(things)).body
    answer = await api.replace(f"{things}/scale", scale(thing, replicas))
    assert (answer.status, words in answer.message) == (status, True), answer.message
    assert (await api.get(things)).body == thing


async def test_other_objects_are_refused(api, things):
    thing = (await api.get(things)).body
    answer = await api.replace(f"{things}/scale", thing)
    assert answer.status == 400
    other = await api.replace(f"{things}/scale", scale(thing, 3, name="b"))
    assert (other.status, other.message) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    assert (await api.get(things)).body == thing


async def test_a_number_that_was_never_set_cannot_be_read_but_set(api):
    group = f"g{uuid.uuid4().hex[:8]}.test.dev"
    body = definition(group, {"type": "object", "properties": {"size": {"type": "integer"}}})
    for version in body["spec"]["versions"]:
        paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        version["subresources"] = {"scale": paths}
    await api.define(body)
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {},
    }
    path = api.path("things", "a", group=f"{group}/v1")
    await api.create(api.path("things", group=f"{group}/v1"), thing)
    answer = await api.get(f"{path}/scale")
    assert (answer.status, answer.message) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.size" does not exist',
    )
    empty = await api.patch(f"{path}/scale", {"metadata": {"labels": {"a": "b"}}})
    assert (empty.status, empty.message) == (
        400,
        'the spec replicas field ".spec.size" cannot be empty',
    )
    assert (await api.patch(f"{path}/scale", {"spec": {"replicas": 3}})).status == 200
    assert (await api.get(path)).body["spec"] == {"size": 3}
    await api.delete(f"{CRDS}/things.{group}")


async def test_verbs_and_types_of_patches_that_it_lacks(api, things):
    thing = (await api.get(things)).body
    assert (await api.create(f"{things}/scale", scale(thing, 3))).status == 405
    assert (await api.delete(f"{things}/scale")).status == 405
    answer = await api.patch(f"{things}/scale", {"spec": {"replicas": 3}}, STRATEGIC)
    assert answer.status == 415
    missing = await api.patch(f"{things}b/scale", {"spec": {"replicas": 3}})
    assert (missing.status, missing.body["reason"]) == (404, "NotFound")
    assert (await api.get(f"{things}b/scale")).status == 404


async def test_only_kinds_that_ask_for_it_have_it(api):
    group = f"g{uuid.uuid4().hex[:8]}.test.dev"
    await api.define(definition(group))
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"size": 1},
    }
    await api.create(api.path("things", group=f"{group}/v1"), thing)
    path = api.path("things", "a", group=f"{group}/v1")
    assert (await api.get(f"{path}/scale")).status == 404
    await api.delete(f"{CRDS}/things.{group}")


async def test_whoever_scales_owns_the_number(api, things):
    await api.patch(f"{things}/scale", {"spec": {"replicas": 5}}, fieldManager="scaler")
    fields = (await api.get(things)).body["metadata"]["managedFields"]
    (mine,) = (each for each in fields if each["manager"] == "scaler")
    assert (mine["operation"], mine["subresource"]) == ("Update", "scale")
    assert mine["fieldsV1"] == {"f:spec": {"f:size": {}}}


async def test_discovery_names_the_scale(api, things):
    path, _, _ = things.partition("/namespaces")
    found = {one["name"]: one for one in (await api.get(path)).body["resources"]}
    assert found["things/scale"] == {
        "name": "things/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }


async def test_the_number_cannot_be_applied(api, things):
    applied = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 6},
    }
    answer = await api.patch(f"{things}/scale", applied, APPLY, fieldManager="scaler", force="true")
    words = "Kind=Scale) to proper version: request to convert CR to an invalid group/version"
    assert (answer.status, words in answer.message) == (500, True), answer.message


MARK: dict[str, Any] = {"metadata": {"labels": {"tried": "yes"}}}
JSON_MARK = [{"op": "add", "path": "/metadata/labels", "value": {"tried": "yes"}}]


CORE, LEASES = "/api/v1/namespaces/{ns}", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
CONFIG, PODS, THINGS = (
    f"{CORE}/configmaps",
    f"{CORE}/pods",
    "/apis/{group}/v1/namespaces/{ns}/things",
)


class Try(Struct, frozen=True):
    """A request that would change something.

    Attributes:
        body: of the request; that of an update is laid over what is there.
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
        api.server.hooks.tokens = TokenIssuer(api.server.store, lambda: EPOCH)
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
