"""Fields of pod templates that the API server does not know: found once, named, told of once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import LONGEST_MESSAGE, ConditionSet
from controller.apimachinery.custom_object import CustomObject
from controller.apimachinery.object_schema import ObjectSchema, SchemaNode, UnknownField
from controller.kube.resources import PODS
from controller.runtime.definitions import (
    UnknownFieldFinder,
    describe,
    set_fields_known,
    unknown_field_events,
)
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Event
from tests.runtime.kit import NOW

BEGINNING = "unknown to this API server, which drops them: "
REMEDY = "; correct or remove them"


@dataclass
class Reads:
    """What a process knows of the schema of pods."""

    schema: ObjectSchema | None = None

    def installed_schema(self, resource: Any) -> InstalledSchema:
        assert resource is PODS
        return InstalledSchema(self.schema)


@dataclass
class Search:
    """A search that finds one field, and remembers in what."""

    searched: list[tuple[Any, ObjectSchema]] = field(default_factory=list[tuple[Any, ObjectSchema]])

    def __call__(self, obj: Any, pod: ObjectSchema) -> list[UnknownField]:
        self.searched.append((obj, pod))
        return [UnknownField(f"spec.f{len(self.searched)}", "field")]


def schema() -> ObjectSchema:
    return ObjectSchema(SchemaNode(), {})


def widget() -> CustomObject:
    return msgspec.convert({"metadata": {"name": "w", "namespace": "default"}}, CustomObject)


def test_an_object_is_searched_once_for_each_schema_of_pods():
    search, reads, obj = Search(), Reads(), widget()
    finder = UnknownFieldFinder(search)
    asked: Any = reads
    assert finder(obj, asked) == "", "no schema is known yet"
    assert search.searched == []
    first, second = schema(), schema()
    reads.schema = first
    told = f"{BEGINNING}spec.f1 (did you mean field?){REMEDY}"
    assert [finder(obj, asked), finder(obj, asked)] == [told, told]
    assert search.searched == [(obj, first)]
    reads.schema = second
    assert finder(obj, asked) == told.replace("f1", "f2")
    assert [pod for _, pod in search.searched] == [first, second]
    reads.schema = None
    assert finder(obj, asked) == ""


def test_keys_that_another_reader_does_not_know_are_named_beside_them():
    reads, obj = Reads(), widget()
    asked: Any = reads
    finder = UnknownFieldFinder(Search(), "Ray", lambda _: [UnknownField("spec.pips", "pip")])
    unread = (
        "unknown to Ray: spec.pips (did you mean pip?); correct or remove them, unless another "
        "version knows them"
    )
    assert finder(obj, asked) == unread, "no schema of pods is needed"
    reads.schema = schema()
    assert finder(obj, asked) == f"{BEGINNING}spec.f1 (did you mean field?){REMEDY}. Also {unread}"


@pytest.mark.parametrize(("count", "rest"), [(1, ""), (10, ""), (11, " and 1 more")])
def test_at_most_ten_fields_are_shown(count: int, rest: str):
    fields = [UnknownField(f"f{number}") for number in range(count)]
    shown = ", ".join(f"f{number}" for number in range(min(count, 10)))
    assert describe(fields) == f"{BEGINNING}{shown}{rest}{REMEDY}"


def test_without_unknown_fields_nothing_is_told_and_the_condition_goes():
    assert describe([]) == ""
    conditions = ConditionSet((), 7, NOW)
    set_fields_known(conditions, "some")
    (found,) = conditions.as_list()
    assert (found["type"], found["status"]) == ("FieldsKnown", "False")
    assert (found["reason"], found["message"]) == ("UnknownFields", "some")
    set_fields_known(conditions, "")
    assert conditions.as_list() == []


@pytest.mark.parametrize("message", ["some", "long " * LONGEST_MESSAGE])
def test_an_event_tells_of_the_fields_until_the_condition_does(message: str):
    told = (Event("Warning", "UnknownFields", "Validate", message),)
    assert unknown_field_events((), message) == told
    conditions = ConditionSet((), 7, NOW)
    set_fields_known(conditions, "others")
    assert unknown_field_events(conditions.as_list(), message) == told
    set_fields_known(conditions, message)
    assert unknown_field_events(conditions.as_list(), message) == ()
    assert unknown_field_events(conditions.as_list(), "") == ()
