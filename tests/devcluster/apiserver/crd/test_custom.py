"""Custom resources: definitions, schemas, rules, versions and printer columns."""

from __future__ import annotations

import asyncio
import copy
import uuid

import pytest

from tests.devcluster.apiserver.definitions import SPEC, definition
from tests.devcluster.apiserver.support import (
    CRDS,
    JSON_PATCH,
    STRATEGIC,
    TABLE,
    types_and_names,
)


class Things:
    def __init__(self, api, group: str) -> None:
        self.api = api
        self.group = group
        self.crd = f"{CRDS}/things.{group}"

    def path(self, name: str = "", version: str = "v1") -> str:
        return self.api.path("things", name, group=f"{self.group}/{version}")

    def body(self, name: str = "a", **spec):
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Thing",
            "metadata": {"name": name},
            "spec": {"size": 1} | spec,
        }

    async def create(self, name: str = "a", **spec):
        return await self.api.create(self.path(), self.body(name, **spec))


@pytest.fixture
async def things(api):
    group = f"g{uuid.uuid4().hex[:8]}.test.dev"
    await api.define(definition(group))
    yield Things(api, group)
    await api.delete(f"{CRDS}/things.{group}")


async def test_a_definition_is_established(things):
    answer = (await things.api.get(things.crd)).body
    conditions = {one["type"]: one["status"] for one in answer["status"]["conditions"]}
    assert conditions["NamesAccepted"] == conditions["Established"] == "True"
    assert answer["status"]["storedVersions"] == ["v1"]
    assert (
        answer["spec"]["names"] | {"singular": "thing", "listKind": "ThingList"}
        == (answer["spec"]["names"])
    )


async def test_a_removed_definition_takes_objects_and_watches_with_it(api):
    group = f"g{uuid.uuid4().hex[:8]}.test.dev"
    await api.define(definition(group))
    things = Things(api, group)
    created = await things.create()
    query = {"resourceVersion": created.revision, "timeoutSeconds": "600"}

    async def watched() -> list[str]:
        return [event["type"] async for event in api.stream(things.path(), **query)]

    async with asyncio.timeout(120):
        events = asyncio.create_task(watched())
        await asyncio.sleep(1)
        await api.delete(things.crd)
        assert await events == ["DELETED"]
    assert (await api.get(things.path())).status == 404


async def test_defaults_are_filled_in(things):
    answer = await things.create(map=[{"name": "x"}])
    assert answer.status == 201
    assert answer.body["spec"] == {
        "size": 1,
        "mode": "a",
        "map": [{"name": "x", "value": 7}],
        "nested": {"inner": "deep"},
    }
    assert answer.body["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "cause", "words"),
    [
        (
            {"size": "x"},
            ("FieldValueTypeInvalid", "spec.size"),
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
        ),
        (
            {"size": 11},
            ("FieldValueInvalid", "spec.size"),
            "Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            {"size": -1},
            ("FieldValueInvalid", "spec.size"),
            "Invalid value: -1: spec.size in body should be greater than or equal to 0",
        ),
        ({"size": None}, ("FieldValueRequired", "spec.size"), "Required value"),
        (
            {"mode": "z"},
            ("FieldValueNotSupported", "spec.mode"),
            'Unsupported value: "z": supported values: "a", "b"',
        ),
        (
            {"word": "ABC"},
            ("FieldValueInvalid", "spec.word"),
            "Invalid value: \"ABC\": spec.word in body should match '^[a-z]+$'",
        ),
        (
            {"word": "abcdef"},
            ("FieldValueTooLong", "spec.word"),
            "Too long: may not be more than 5 bytes",
        ),
        (
            {"word": "a"},
            ("FieldValueInvalid", "spec.word"),
            'Invalid value: "a": spec.word in body should be at least 2 chars long',
        ),
        (
            {"port": True},
            ("FieldValueTypeInvalid", "spec.port"),
            'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
        ),
        (
            {"free": 5},
            ("FieldValueTypeInvalid", "spec.free"),
            'Invalid value: "integer": spec.free in body must be of type object: "integer"',
        ),
        (
            {"labels": {"a": 1}},
            ("FieldValueTypeInvalid", "spec.labels.a"),
            'Invalid value: "integer": spec.labels.a in body must be of type string: "integer"',
        ),
        (
            {"maybe": 5},
            ("FieldValueTypeInvalid", "spec.maybe"),
            'Invalid value: "integer": spec.maybe in body must be of type string: "integer"',
        ),
        (
            {"when": "x"},
            ("FieldValueTypeInvalid", "spec.when"),
            'Invalid value: "x": spec.when in body must be of type date-time: "x"',
        ),
        (
            {"list": []},
            ("FieldValueInvalid", "spec.list"),
            "Invalid value: 0: spec.list in body should have at least 1 items",
        ),
        (
            {"list": ["a"] * 4},
            ("FieldValueTooMany", "spec.list"),
            "Too many: 4: must have at most 3 items",
        ),
        (
            {"list": [1]},
            ("FieldValueTypeInvalid", "spec.list[0]"),
            'Invalid value: "integer": spec.list[0] in body must be of type string: "integer"',
        ),
        (
            {"set": ["a", "a"]},
            ("FieldValueDuplicate", "spec.set[1]"),
            'Duplicate value: "a"',
        ),
        (
            {"map": [{"name": "a"}, {"name": "a"}]},
            ("FieldValueDuplicate", "spec.map[1]"),
            'Duplicate value: {"name":"a"}',
        ),
        ({"map": [{"value": 1}]}, ("FieldValueRequired", "spec.map[0].name"), "Required value"),
        (
            {"choice": "z"},
            ("FieldValueInvalid", "spec.choice"),
            "Invalid value: \"z\": failed rule: self in ['x', 'y']",
        ),
        (
            {"this": "1", "that": "2"},
            ("FieldValueInvalid", "spec"),
            "this or that, not both",
        ),
    ],
)
async def test_what_breaks_the_schema_is_invalid(things, spec, cause, words):
    answer = await things.create(**spec)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.causes[0] == cause
    assert words in answer.body["details"]["causes"][0]["message"]
    assert answer.message.startswith(f'Thing.{things.group} "a" is invalid: ')


async def test_rules_are_not_checked_on_what_has_the_wrong_shape(things):
    answer = await things.create(size="x", choice="z")
    assert answer.causes == [
        ("FieldValueTypeInvalid", "spec.size"),
        ("FieldValueInvalid", "<nil>"),
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"port": 5},
        {"port": "http"},
        {"free": {"x": {"y": 1}}},
        {"maybe": None},
        {"when": "2026-01-01T00:00:00Z"},
        {"choice": "x"},
        {"this": "1"},
        {"labels": {"a": "b"}},
    ],
)
async def test_what_fits_the_schema_is_kept(things, spec):
    answer = await things.create(**spec)
    assert answer.status == 201
    assert answer.body["spec"].items() >= spec.items()


async def test_nulls_count_as_missing_unless_they_are_allowed(things):
    answer = await things.create(mode=None, flag=None, nested=None)
    assert answer.body["spec"] == {"size": 1, "mode": "a", "nested": {"inner": "deep"}}


async def test_unknown_fields_are_pruned_with_a_warning(things):
    body = things.body(extra=1, nested={"other": 2}) | {"more": 3}
    body["metadata"]["odd"] = 4
    answer = await things.api.create(things.path(), body)
    assert answer.status == 201
    assert answer.warnings == [
        'unknown field "metadata.odd"',
        'unknown field "more"',
        'unknown field "spec.extra"',
        'unknown field "spec.nested.other"',
    ]
    assert "extra" not in answer.body["spec"]
    strict = await things.api.create(things.path(), body, fieldValidation="Strict")
    assert strict.status == 400
    assert 'strict decoding error: unknown field "metadata.odd"' in strict.message


async def test_the_body_must_say_its_kind_and_version(things):
    without = things.body()
    del without["kind"]
    assert (await things.api.create(things.path(), without)).status == 400
    other_version = things.body() | {"apiVersion": f"{things.group}/v1alpha1"}
    answer = await things.api.create(things.path(), other_version)
    assert (answer.status, "does not match the expected API version" in answer.message) == (
        400,
        True,
    )
    other_kind = things.body() | {"kind": "Other"}
    assert (await things.api.create(things.path(), other_kind)).causes == [
        ("FieldValueInvalid", "kind")
    ]


async def test_transition_rules_hold_for_changes_only(things):
    await things.create(immutable="x")
    answer = await things.api.patch(things.path("a"), {"spec": {"immutable": "y"}})
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "spec.immutable")])
    assert "is immutable" in answer.message
    removed = await things.api.patch(things.path("a"), {"spec": {"immutable": None}})
    assert removed.status == 200
    assert (await things.api.patch(things.path("a"), {"spec": {"immutable": "z"}})).status == 200


async def test_what_was_invalid_before_and_did_not_change_is_tolerated(things):
    await things.create(size=9)
    tighter = copy.deepcopy((await things.api.get(things.crd)).body)
    for version in tighter["spec"]["versions"]:
        size = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        size["maximum"] = 5
    assert (await things.api.replace(things.crd, tighter)).status == 200
    while (await things.create("b", size=9)).status == 201:
        await things.api.delete(things.path("b"))
    kept = await things.api.patch(things.path("a"), {"spec": {"mode": "b"}})
    assert kept.status == 200
    assert (await things.api.patch(things.path("a"), {"spec": {"size": 8}})).status == 422


async def test_the_status_is_written_by_its_subresource_alone(things):
    body = things.body() | {"status": {"phase": "Early"}}
    assert "status" not in (await things.api.create(things.path(), body)).body
    patch = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"size": 5},
        "status": {"phase": "Up", "odd": 1},
    }
    answer = await things.api.patch(f"{things.path('a')}/status", patch)
    assert answer.body["status"] == {"phase": "Up"}
    assert answer.body["spec"]["size"] == 1
    assert "labels" not in answer.body["metadata"]
    assert answer.body["metadata"]["generation"] == 1
    main = await things.api.patch(things.path("a"), {"status": {"phase": "Down"}})
    assert main.body["status"] == {"phase": "Up"}
    assert main.revision == answer.revision


async def test_an_update_needs_a_revision(things):
    await things.create()
    answer = await things.api.replace(things.path("a"), things.body())
    assert (answer.status, answer.causes) == (
        422,
        [("FieldValueInvalid", "metadata.resourceVersion")],
    )
    assert (await things.api.replace(things.path("none"), things.body("none"))).status == 404


async def test_strategic_merge_patch_is_for_built_in_kinds(things):
    await things.create()
    answer = await things.api.patch(things.path("a"), {"spec": {"size": 2}}, STRATEGIC)
    assert answer.status == 415


async def test_all_versions_show_the_same_objects(things):
    created = await things.create()
    other = await things.api.get(things.path("a", "v1alpha1"))
    assert other.body == created.body | {"apiVersion": f"{things.group}/v1alpha1"}
    patched = await things.api.patch(things.path("a", "v1alpha1"), {"spec": {"size": 3}})
    assert patched.body["apiVersion"] == f"{things.group}/v1alpha1"
    back = (await things.api.get(things.path("a"))).body
    assert (back["apiVersion"], back["spec"]["size"]) == (f"{things.group}/v1", 3)


async def test_true_is_not_one_to_a_json_patch(things):
    await things.create(flag=True)
    for value, status in ((1, 422), (True, 200)):
        operations = [{"op": "test", "path": "/spec/flag", "value": value}]
        answer = await things.api.patch(things.path("a"), operations, JSON_PATCH)
        assert answer.status == status


async def test_deleting_answers_with_a_status_or_the_marked_object(things):
    created = await things.create()
    deleted = await things.api.delete(things.path("a"))
    assert deleted.body["details"] == {
        "name": "a",
        "group": things.group,
        "kind": "things",
        "uid": created.body["metadata"]["uid"],
    }
    body = things.body("b")
    body["metadata"]["finalizers"] = ["x.y/z"]
    await things.api.create(things.path(), body)
    marked = await things.api.delete(things.path("b"))
    assert marked.body["kind"] == "Thing"
    assert marked.body["metadata"]["generation"] == 2
    await things.api.patch(things.path("b"), {"metadata": {"finalizers": None}})


async def test_lists_repeat_the_kind_and_watches_work(things):
    created = await things.create()
    listed = (await things.api.get(things.path())).body
    assert listed["kind"] == "ThingList"
    assert listed["metadata"]["continue"] == ""
    assert listed["items"][0]["kind"] == "Thing"
    await things.api.delete(things.path("a"))
    events = await things.api.watch(things.path(), 1, resourceVersion=created.revision)
    assert types_and_names(events) == [("DELETED", "a")]


async def test_fields_of_a_spec_are_not_selectable(things):
    answer = await things.api.get(things.path(), fieldSelector="spec.size=1")
    assert (answer.status, answer.message) == (400, "field label not supported: spec.size")


async def test_printer_columns(things):
    await things.create()
    await things.api.patch(
        f"{things.path('a')}/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    )
    table = (await things.api.get(things.path(), accept=TABLE)).body
    assert [
        (column["name"], column["type"], column["priority"])
        for column in table["columnDefinitions"]
    ] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Mode", "string", 1),
        ("Phase", "string", 0),
        ("Ready", "string", 0),
        ("Age", "date", 0),
    ]
    (row,) = table["rows"]
    assert row["cells"][:5] == ["a", 1, "a", None, "True"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    without = (await things.api.get(things.path(version="v1alpha1"), accept=TABLE)).body
    assert [column["name"] for column in without["columnDefinitions"]] == ["Name", "Age"]


async def test_discovery_shows_what_is_defined(things):
    resources = (await things.api.get(f"/apis/{things.group}/v1")).body["resources"]
    thing, status = resources
    assert (thing["name"], thing["kind"], thing["singularName"]) == ("things", "Thing", "thing")
    assert (thing["shortNames"], thing["categories"]) == (["th"], ["all"])
    assert (status["name"], status["verbs"]) == ("things/status", ["get", "patch", "update"])
    group = (await things.api.get(f"/apis/{things.group}")).body
    assert group["preferredVersion"]["version"] == "v1"
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]


async def test_a_field_that_a_changed_definition_lacks_vanishes_at_the_same_generation(things):
    api = things.api
    created = [await things.create(name, word="abc") for name in ("a", "b")]
    spec = copy.deepcopy(SPEC)
    del spec["properties"]["word"]
    await redefine(things, spec)
    a = await read_until(things, "a", lambda spec: "word" not in spec)
    assert a["metadata"]["resourceVersion"] == created[0].revision
    assert a["metadata"]["generation"] == 1
    b = await api.patch(things.path("b"), {"metadata": {"annotations": {"k": "v"}}})
    assert b.body["metadata"]["generation"] == 1

    await redefine(things, SPEC)
    await read_until(things, "a", lambda spec: spec.get("word") == "abc")
    assert "word" not in (await api.get(things.path("b"))).body["spec"], "it was written without"


async def test_a_changed_definition_ends_watches(things):
    created = await things.create()
    async with asyncio.timeout(60):
        lines = things.api.stream(
            things.path(), watch="1", resourceVersion=created.revision, timeoutSeconds="600"
        )
        ended = asyncio.ensure_future(read_all(lines))
        await asyncio.sleep(1)
        await redefine(things, SPEC | {"description": "A changed one."})
        assert await ended == []


async def redefine(things, spec) -> None:
    """Replace the schema of the specification in all versions."""
    body = (await things.api.get(things.crd)).body
    for version in body["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    assert (await things.api.replace(things.crd, body)).status == 200


async def read_until(things, name, reached):
    """The object once its specification is as wanted: a real server takes a moment."""
    async with asyncio.timeout(60):
        while True:
            answer = await things.api.get(things.path(name))
            if answer.status == 200 and reached(answer.body["spec"]):
                return answer.body
            await asyncio.sleep(0.1)


async def read_all(lines) -> list:
    return [line async for line in lines]


async def test_deleting_a_definition_deletes_its_objects(embedded):
    await embedded.define(definition("g.test.dev"))
    things = Things(embedded, "g.test.dev")
    await things.create()
    held = things.body("held")
    held["metadata"]["finalizers"] = ["x.y/z"]
    await embedded.create(things.path(), held)
    deleted = await embedded.delete(things.crd)
    assert deleted.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert (await embedded.get(things.path("a"))).status == 404
    assert (await embedded.get(things.path("held"))).body["metadata"]["deletionTimestamp"]
    assert (await embedded.get(things.crd)).status == 200
    await embedded.patch(things.path("held"), {"metadata": {"finalizers": None}})
    assert (await embedded.get(things.crd)).status == 404
    assert (await embedded.get(things.path())).status == 404


async def test_while_a_definition_is_being_deleted_no_object_of_it_is_created(things):
    held = things.body("held")
    held["metadata"]["finalizers"] = ["x.y/z"]
    await things.api.create(things.path(), held)
    await things.api.delete(things.crd)
    try:
        refused = await things.create("late")
        for _ in range(100):  # a server may notice the deletion a little later
            if refused.status == 403:
                break
            await asyncio.sleep(0.1)
            refused = await things.create("late")
        assert refused.body["reason"] == "Forbidden"
        assert refused.message == (
            f'things.{things.group} "late" is forbidden: '
            "create not allowed while custom resource definition is terminating"
        )
        assert refused.body["details"] == {"name": "late", "group": things.group, "kind": "things"}
    finally:
        await things.api.patch(things.path("held"), {"metadata": {"finalizers": None}})


async def test_the_name_of_a_definition_follows_from_plural_and_group(api):
    wrong = definition("g.test.dev") | {"metadata": {"name": "other.g.test.dev"}}
    answer = await api.create(CRDS, wrong)
    assert answer.causes == [("FieldValueInvalid", "metadata.name")]
    assert 'must be spec.names.plural+"."+spec.group' in answer.message


async def test_exactly_one_version_is_stored(api):
    wrong = definition("g.test.dev")
    for version in wrong["spec"]["versions"]:
        version["storage"] = False
    answer = await api.create(CRDS, wrong)
    assert answer.status == 422
    assert ("FieldValueInvalid", "spec.versions") in answer.causes


@pytest.mark.parametrize(
    "addition",
    [
        {"x-kubernetes-validations": [{"rule": "self.all(x, x > 1)"}]},
        {"x-kubernetes-validations": [{"rule": "self ==", "message": "half a rule"}]},
        {"not": {"type": "string"}},
        {"oneOf": [{"type": "string"}]},
        {"anyOf": [{"required": ["x"]}]},
        {"type": "string", "format": "email"},
    ],
)
async def test_a_schema_that_would_be_ignored_in_part_is_refused(embedded, addition):
    spec = SPEC | {"properties": SPEC["properties"] | {"odd": {"type": "object"} | addition}}
    answer = await embedded.create(CRDS, definition("g.test.dev", spec))
    assert answer.status == 422
    assert answer.causes[0][1] == "spec.versions[0].schema.openAPIV3Schema"
    assert "spec.odd" in answer.message


async def test_an_unsupported_printer_column_is_refused(embedded):
    wrong = definition("g.test.dev")
    wrong["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": "X", "type": "string", "jsonPath": ".spec.list[0:2]"}
    ]
    assert (await embedded.create(CRDS, wrong)).status == 422
