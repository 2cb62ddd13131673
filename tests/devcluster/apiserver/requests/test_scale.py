"""The scale subresource of custom resources: a number of replicas, as `autoscaling/v1` has it."""

from __future__ import annotations

import uuid

import pytest

from tests.devcluster.apiserver.definitions import definition
from tests.devcluster.apiserver.support import APPLY, CRDS, JSON_PATCH, STRATEGIC


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
    version = path.removeprefix("/apis/")
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
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = (await api.get("/apis", accept=accept)).body["items"]
    (own,) = (one for one in groups if one["metadata"]["name"] == version.partition("/")[0])
    (thing,) = own["versions"][0]["resources"]
    (scales,) = (one for one in thing["subresources"] if one["subresource"] == "scale")
    assert scales["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert scales["verbs"] == ["get", "patch", "update"]


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
