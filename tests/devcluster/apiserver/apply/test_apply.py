"""Server-side apply: ownership, conflicts and what is removed."""

from __future__ import annotations

import pytest

from tests.devcluster.apiserver.support import APPLY, STRATEGIC, pod


def config(data, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", **metadata},
        "data": data,
    }


@pytest.fixture
def apply(api):
    async def call(body, manager: str = "one", **query: str):
        return await api.patch(
            api.path("configmaps", "a"), body, APPLY, fieldManager=manager, **query
        )

    return call


def owned(answer) -> dict[str, dict]:
    return {
        entry["manager"]: entry["fieldsV1"] for entry in answer.body["metadata"]["managedFields"]
    }


async def test_an_apply_creates_and_notes_who_owns_what(apply):
    answer = await apply(config({"x": "1"}, labels={"l": "1"}))
    assert answer.status == 201
    (entry,) = answer.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:l": {}}},
        "f:data": {"f:x": {}},
    }


async def test_applying_the_same_again_changes_nothing(apply):
    first = await apply(config({"x": "1"}))
    again = await apply(config({"x": "1"}))
    assert (again.status, again.revision) == (200, first.revision)


async def test_what_is_no_longer_applied_is_removed(apply):
    await apply(config({"x": "1", "y": "2"}))
    assert (await apply(config({"x": "1"}))).body["data"] == {"x": "1"}


async def test_changing_what_another_owns_is_a_conflict(apply):
    await apply(config({"x": "1"}))
    answer = await apply(config({"x": "2"}), "two")
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.causes == [("FieldManagerConflict", ".data.x")]
    assert answer.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'


async def test_a_conflict_comes_before_another_namespace(apply):
    await apply(config({"x": "1"}))
    elsewhere = config({"x": "2"})
    elsewhere["metadata"]["namespace"] = "other"
    assert (await apply(elsewhere, "two")).status == 409
    assert (await apply(elsewhere, "two", force="true")).status == 400


async def test_force_takes_over(apply):
    await apply(config({"x": "1"}))
    answer = await apply(config({"x": "2"}), "two", force="true")
    assert answer.body["data"] == {"x": "2"}
    assert owned(answer) == {"two": {"f:data": {"f:x": {}}}}


async def test_an_ordinary_write_takes_what_it_changes(api, apply):
    await apply(config({"x": "1", "y": "1"}))
    changed = await api.patch(
        api.path("configmaps", "a"), {"data": {"x": "2"}}, fieldManager="hand"
    )
    assert owned(changed) == {
        "one": {"f:data": {"f:y": {}}},
        "hand": {"f:data": {"f:x": {}}},
    }
    conflict = await apply(config({"x": "3", "y": "1"}))
    assert conflict.message == (
        'Apply failed with 1 conflict: conflict with "hand" using v1: .data.x'
    )


async def test_lists_are_merged_by_key(api):
    def body(*containers):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "spec": spec,
        }

    path = api.path("deployments", "a", group="apps/v1")
    first = {"name": "c1", "image": "i", "ports": [{"containerPort": 80}]}
    second = {"name": "c2", "image": "i"}
    await api.patch(path, body(first, second), APPLY, fieldManager="one")
    environment = {"name": "c1", "env": [{"name": "A", "value": "1"}]}
    merged = await api.patch(path, body(environment), APPLY, fieldManager="two")
    containers = merged.body["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["c1", "c2"]
    assert containers[0]["env"] == [{"name": "A", "value": "1"}]
    less = await api.patch(path, body({"name": "c1", "image": "i"}), APPLY, fieldManager="one")
    (left,) = less.body["spec"]["template"]["spec"]["containers"]
    assert (left["name"], left["env"], "ports" in left) == (
        "c1",
        [{"name": "A", "value": "1"}],
        False,
    )


async def test_an_apply_needs_a_manager_and_the_right_name(api):
    path = api.path("configmaps", "a")
    assert (await api.patch(path, config({}), APPLY)).status == 422
    elsewhere = await api.patch(api.path("configmaps", "b"), config({}), APPLY, fieldManager="one")
    assert elsewhere.status == 400


async def test_objects_that_nobody_applied_are_not_tracked(embedded):
    created = await embedded.create(embedded.path("pods"), pod("a"))
    patched = await embedded.patch(
        embedded.path("pods", "a"), {"metadata": {"labels": {"x": "y"}}}, STRATEGIC
    )
    for answer in (created, patched):
        assert "managedFields" not in answer.body["metadata"]


async def test_what_was_there_before_belongs_to_nobody_in_particular(embedded):
    await embedded.create(embedded.path("configmaps"), config({"x": "1"}))
    answer = await embedded.patch(
        embedded.path("configmaps", "a"), config({"x": "2"}), APPLY, fieldManager="one"
    )
    assert answer.causes == [("FieldManagerConflict", ".data.x")]
    assert '"before-first-apply" using v1' in answer.message


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def test_kubectl_may_change_what_it_applied_from_the_client_side(api, apply):
    noted = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}'
    old = config({"x": "1", "y": "1"}, annotations={LAST_APPLIED: noted})
    await api.create(api.path("configmaps"), old, fieldManager="kubectl-client-side-apply")
    assert (await apply(config({"x": "2"}), "somebody")).status == 409
    assert (await apply(config({"y": "2"}), "kubectl")).status == 409
    answer = await apply(config({"x": "2"}), "kubectl")
    assert answer.body["data"] == {"x": "2", "y": "1"}
    assert '"data":{"x":"2"}' in answer.body["metadata"]["annotations"][LAST_APPLIED]


async def test_who_says_its_name_owns_what_it_creates_from_the_start(api, apply):
    await api.create(api.path("configmaps"), config({"x": "1"}), fieldManager="creator")
    answer = await apply(config({"x": "2"}))
    assert 'conflict with "creator" using v1: .data.x' in answer.message


async def test_applied_lists_keep_the_order_in_which_they_are_applied(api):
    path = api.path("pods", "p")

    def with_finalizers(*names: str):
        whole = pod("p", finalizers=[f"example.org/{name}" for name in names])
        return whole | {"apiVersion": "v1", "kind": "Pod"}

    await api.create(api.path("pods"), with_finalizers("b", "c"))
    answer = await api.patch(path, with_finalizers("a", "b"), APPLY, fieldManager="m")
    found = [name.removeprefix("example.org/") for name in answer.body["metadata"]["finalizers"]]
    await api.patch(path, {"metadata": {"finalizers": None}})
    assert found == ["a", "b", "c"]


async def test_what_does_not_fit_the_kind_cannot_be_applied(apply):
    answer = await apply(config({"x": "1"}) | {"more": 1})
    assert answer.status == 500
    assert answer.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
        ".more: field not declared in schema"
    )


async def test_what_does_not_exist_is_applied_under_its_own_name(api):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    path = api.path("configmaps", "nameless")
    answer = await api.patch(path, body, APPLY, fieldManager="me")
    assert (answer.status, answer.message) == (
        400,
        "the name of the object (nameless based on URL) was undeterminable: name must be provided",
    )
    named = body | {"metadata": {"name": "nameless"}}
    assert (await api.patch(path, named, APPLY, fieldManager="me")).status == 201
    assert (await api.patch(path, body, APPLY, fieldManager="me")).status == 200
