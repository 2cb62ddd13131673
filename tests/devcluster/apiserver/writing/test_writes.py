"""Create, update and patch: checks, stamps and what does not count as a change."""

from __future__ import annotations

import pytest

from tests.devcluster.apiserver.support import JSON_PATCH, MERGE, config_map, pod


async def test_a_created_object_is_stamped_and_given_back(api):
    answer = await api.create(api.path("configmaps"), config_map("a", key="value"))
    assert answer.status == 201
    assert answer.body["kind"] == "ConfigMap"
    metadata = answer.body["metadata"]
    assert metadata["namespace"] == api.namespace
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert (await api.get(api.path("configmaps", "a"))).body == answer.body


async def test_names_are_unique(api):
    await api.create(api.path("pods"), pod("a"))
    again = await api.create(api.path("pods"), pod("a"))
    assert (again.status, again.body["reason"]) == (409, "AlreadyExists")
    assert again.message == 'pods "a" already exists'
    assert again.body["details"] == {"name": "a", "kind": "pods"}


async def test_a_missing_object_is_not_found(api):
    for method in ("GET", "DELETE"):
        answer = await api.call(method, api.path("pods", "none"))
        assert (answer.status, answer.message) == (404, 'pods "none" not found')
        assert answer.body["details"] == {"name": "none", "kind": "pods"}


async def test_generate_name_adds_five_characters(api):
    body = {"metadata": {"generateName": "a-"}}
    names = {
        (await api.create(api.path("configmaps"), body)).body["metadata"]["name"] for _ in range(3)
    }
    assert len(names) == 3
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


async def test_an_object_without_a_name_is_invalid(api):
    answer = await api.create(api.path("configmaps"), {"metadata": {}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.causes == [("FieldValueRequired", "metadata.name")]
    assert answer.message == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


@pytest.mark.parametrize(
    ("metadata", "cause"),
    [
        ({"name": "Upper"}, ("FieldValueInvalid", "metadata.name")),
        ({"labels": {"a b": "c"}}, ("FieldValueInvalid", "metadata.labels")),
        ({"labels": {"a": "b c"}}, ("FieldValueInvalid", "metadata.labels")),
        ({"annotations": {"a b": "c"}}, ("FieldValueInvalid", "metadata.annotations")),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            ("FieldValueInvalid", "metadata.ownerReferences.uid"),
        ),
        ({"finalizers": ["no-prefix"]}, ("FieldValueInvalid", "metadata.finalizers[0]")),
    ],
)
async def test_bad_metadata_is_invalid(api, metadata, cause):
    answer = await api.create(api.path("pods"), pod(**({"name": "a"} | metadata)))
    assert answer.status == 422
    assert answer.causes == [cause]


async def test_two_controllers_of_one_object_are_refused(api):
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    owners = [owner | {"name": name, "uid": name} for name in ("a", "b")]
    answer = await api.create(api.path("pods"), pod("a", ownerReferences=owners))
    assert answer.causes == [("FieldValueInvalid", "metadata.ownerReferences")]
    assert "Only one reference can have Controller set to true" in answer.message


async def test_a_body_of_another_kind_is_a_bad_request(api):
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    answer = await api.create(api.path("pods"), body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert "cannot be handled as a Pod" in answer.message


async def test_a_body_of_another_namespace_is_a_bad_request(api):
    answer = await api.create(api.path("pods"), pod("a", namespace="other"))
    assert answer.status == 400
    assert answer.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_creating_in_a_missing_namespace_is_not_found(api):
    answer = await api.create("/api/v1/namespaces/missing/pods", pod("a"))
    assert (answer.status, answer.message) == (404, 'namespaces "missing" not found')


async def test_a_type_error_names_the_field(api):
    answer = await api.create(api.path("pods"), {"spec": {"containers": [{"name": 1}]}})
    assert answer.status == 400
    assert answer.message == (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go '
        "struct field Container.spec.containers.name of type string"
    )


async def test_unknown_fields_are_dropped_with_a_warning(api):
    body = pod("a") | {"extra": 1}
    body["spec"]["containers"][0]["imagee"] = "typo"
    answer = await api.create(api.path("pods"), body)
    assert answer.status == 201
    assert sorted(answer.warnings) == [
        'unknown field "extra"',
        'unknown field "spec.containers[0].imagee"',
    ]
    assert "extra" not in answer.body


async def test_unknown_fields_are_refused_under_strict_validation(api):
    body = pod("a")
    body["spec"]["containerz"] = []
    answer = await api.create(api.path("pods"), body, fieldValidation="Strict")
    assert answer.status == 400
    assert answer.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containerz"'
    )


async def test_unknown_fields_can_be_ignored(api):
    answer = await api.create(
        api.path("configmaps"), {"metadata": {"name": "a"}, "dta": {}}, fieldValidation="Ignore"
    )
    assert (answer.status, answer.warnings) == (201, [])


async def test_an_update_with_an_old_revision_conflicts(api):
    first = await api.create(api.path("configmaps"), config_map("a"))
    await api.patch(api.path("configmaps", "a"), {"data": {"x": "1"}})
    answer = await api.replace(api.path("configmaps", "a"), first.body)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


async def test_a_patch_with_an_old_revision_conflicts(api):
    first = await api.create(api.path("configmaps"), config_map("a"))
    await api.patch(api.path("configmaps", "a"), {"data": {"x": "1"}})
    stale = {"metadata": {"resourceVersion": first.revision}, "data": {"x": "2"}}
    assert (await api.patch(api.path("configmaps", "a"), stale)).status == 409


async def test_an_update_of_another_incarnation_conflicts(api):
    await api.create(api.path("configmaps"), config_map("a"))
    body = config_map("a")
    body["metadata"]["uid"] = "aaaaaaaa-0000-4000-8000-000000000000"
    answer = await api.replace(api.path("configmaps", "a"), body)
    assert answer.status == 409
    assert "Precondition failed: UID in precondition" in answer.message


async def test_a_patch_of_the_uid_is_invalid(api):
    await api.create(api.path("configmaps"), config_map("a"))
    patch = {"metadata": {"uid": "aaaaaaaa-0000-4000-8000-000000000000"}}
    answer = await api.patch(api.path("configmaps", "a"), patch)
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "metadata.uid")])


async def test_what_changes_nothing_makes_no_revision(api):
    first = await api.create(api.path("configmaps"), config_map("a", x="1"))
    patched = await api.patch(api.path("configmaps", "a"), {"data": {"x": "1"}})
    replaced = await api.replace(api.path("configmaps", "a"), first.body)
    assert patched.revision == replaced.revision == first.revision


async def test_the_name_in_body_and_path_must_agree(api):
    await api.create(api.path("configmaps"), config_map("a"))
    answer = await api.replace(api.path("configmaps", "a"), config_map("b"))
    assert (answer.status, answer.message) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )


async def test_status_and_spec_are_written_apart(api):
    await api.create(api.path("pods"), pod("a"))
    by_main = await api.patch(api.path("pods", "a"), {"status": {"phase": "Running"}})
    assert by_main.body["status"]["phase"] == "Pending"
    by_status = await api.patch(
        f"{api.path('pods', 'a')}/status",
        {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}},
    )
    assert by_status.body["status"]["phase"] == "Running"
    assert "nodeName" not in by_status.body["spec"]


async def test_only_a_changed_spec_is_a_new_generation(api):
    path = api.path("networkpolicies", group="networking.k8s.io/v1")
    first = await api.create(path, {"metadata": {"name": "a"}, "spec": {"podSelector": {}}})
    assert first.body["metadata"]["generation"] == 1
    labelled = await api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.body["metadata"]["generation"] == 1
    selector = {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}
    assert (await api.patch(f"{path}/a", selector)).body["metadata"]["generation"] == 2


async def test_some_kinds_are_created_by_put_others_not(api):
    lease = await api.replace(
        api.path("leases", "a", group="coordination.k8s.io/v1"),
        {"metadata": {"name": "a"}, "spec": {}},
    )
    assert lease.status == 201
    assert (await api.replace(api.path("configmaps", "a"), config_map("a"))).status == 404


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ({"op": "replace", "path": "/data/new", "value": "1"}, 200),
        ({"op": "test", "path": "/data/new", "value": None}, 200),
        ({"op": "copy", "from": "/data/x", "path": "/data/y"}, 200),
        ({"op": "move", "from": "/data/x", "path": "/data/y"}, 200),
        ({"op": "remove", "path": "/data/x"}, 200),
        ({"op": "test", "path": "/metadata/labels/a~1b", "value": "c"}, 200),
        ({"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}, 200),
        ({"op": "remove", "path": "/data/none"}, 422),
        ({"op": "test", "path": "/none/new", "value": None}, 422),
        ({"op": "add", "path": "/none/new", "value": "1"}, 422),
        ({"op": "replace", "path": "/none/new", "value": "1"}, 422),
        ({"op": "move", "from": "/data/none", "path": "/data/y"}, 422),
        ({"op": "remove", "path": "/metadata/finalizers/0"}, 422),
    ],
)
async def test_json_patch_operations_on_what_is_there_and_what_is_not(api, operation, status):
    await api.create(
        api.path("configmaps"),
        {"metadata": {"name": "a", "labels": {"a/b": "c"}}, "data": {"x": "1"}},
    )
    answer = await api.patch(api.path("configmaps", "a"), [operation], JSON_PATCH)
    assert answer.status == status


async def test_other_patch_types_are_unsupported(api):
    await api.create(api.path("configmaps"), config_map("a"))
    answer = await api.patch(api.path("configmaps", "a"), {}, "application/json")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_a_patch_of_the_wrong_type_is_invalid(api):
    await api.create(api.path("configmaps"), config_map("a"))
    answer = await api.patch(api.path("configmaps", "a"), {"data": {"x": 1}}, MERGE)
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "patch")])


async def test_methods_that_make_no_sense_are_not_allowed(api):
    await api.create(api.path("pods"), pod("a"))
    for method, path in (
        ("POST", api.path("pods", "a")),
        ("PUT", api.path("pods")),
        ("POST", f"{api.path('pods', 'a')}/status"),
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
    ):
        assert (await api.call(method, path, pod("a"))).status == 405, (method, path)


async def test_what_is_not_served_is_not_found(api):
    unknown = await api.get("/api/v1/unknown")
    assert (unknown.status, unknown.message) == (
        404,
        "the server could not find the requested resource",
    )
    assert (await api.get(f"{api.path('pods', 'a')}/unknown")).status == 404
    elsewhere = await api.get("/apis/unknown.group/v1/things")
    assert (elsewhere.status, elsewhere.text) == (404, b"404 page not found\n")


async def test_what_only_the_server_sets_stays(api):
    created = (await api.create(api.path("pods"), pod("a"))).body
    patch = {
        "metadata": {
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "generation": 77,
            "labels": {"x": "y"},
        }
    }
    metadata = (await api.patch(api.path("pods", "a"), patch)).body["metadata"]
    assert metadata["labels"] == {"x": "y"}
    for name in ("creationTimestamp", "generation", "uid"):
        assert metadata[name] == created["metadata"][name], name


@pytest.mark.parametrize(
    "patch", [{"deletionTimestamp": "2001-01-01T00:00:00Z"}, {"deletionGracePeriodSeconds": 5}]
)
async def test_only_delete_makes_an_object_terminate(api, patch):
    await api.create(api.path("pods"), pod("a"))
    answer = await api.patch(api.path("pods", "a"), {"metadata": patch})
    (field,) = patch
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", f"metadata.{field}")])
