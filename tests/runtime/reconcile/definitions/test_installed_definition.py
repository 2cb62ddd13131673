"""What the installed definition of a kind lacks, and which edits of an object it may have cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.custom_object import CustomObject
from controller.apimachinery.object_schema import ObjectSchema, SchemaNode
from controller.kube.resources import Resource
from controller.runtime.definitions import (
    DEFINITION_COMPLETE,
    REMEDY,
    DefinitionReader,
    DefinitionsReader,
    InstalledDefinition,
    ReadGeneration,
    remedy,
)
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Event
from tests.runtime.kit import NOW

WIDGETS = Resource("test.dev", "v1", "widgets", "Widget", CustomObject)
GADGETS = Resource("test.dev", "v1", "gadgets", "Gadget", CustomObject)
KEY = "default/w"


def schema(*names: str) -> ObjectSchema:
    """That of objects whose specification has only these fields."""
    spec = SchemaNode(properties=dict.fromkeys((*names, "other"), SchemaNode(preserves=True)))
    return ObjectSchema(SchemaNode(properties={"spec": spec}), {})


WHOLE, PRUNED = schema("size", "color"), schema("color")
SIZE = "spec.size"


def widget(generation: int = 7, status: Any = None) -> CustomObject:
    metadata = {"name": "w", "namespace": "default", "uid": "u", "generation": generation}
    body = {"metadata": metadata, "status": status or {"observedGeneration": 6}}
    return msgspec.convert(body, CustomObject)


@dataclass
class Reads:
    schemas: dict[Resource[Any], InstalledSchema] = field(default_factory=dict)
    unverified: set[tuple[Resource[Any], str]] = field(default_factory=set)
    memories: dict[str, Any] = field(default_factory=dict)

    def install(self, found: ObjectSchema | None, resource: Any = WIDGETS, **more: Any) -> None:
        self.schemas[resource] = InstalledSchema(found, **more)

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        return self.schemas[resource]

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        return (resource, key) not in self.unverified

    def record(self, owner_uid: str) -> Any:
        return SimpleNamespace(memory=self.memories.get(owner_uid))


@dataclass
class Reading:
    """A reader, and what it was asked."""

    reads: Any = field(default_factory=Reads)
    schemas: list[ObjectSchema] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reader = DefinitionReader(WIDGETS, self.relied_on, "Nothing is made", "Mend it")

    def relied_on(self, found: ObjectSchema) -> Iterable[str]:
        self.schemas.append(found)
        return ("spec.color", SIZE)

    def of(self, obj: CustomObject | None = None) -> InstalledDefinition:
        return self.reader(self.reads, obj)


@pytest.fixture
def reading() -> Reading:
    return Reading()


LACKING = InstalledDefinition("Widget", "Nothing is made", (SIZE,), remedy="Mend it")


def test_fields_that_are_missing_are_said_with_what_follows_and_what_to_do():
    assert LACKING.problem == (
        "the installed definition of Widgets lacks spec.size: the API server drops this from "
        "every Widget. Nothing is made. Mend it"
    )
    both = replace(LACKING, missing=(SIZE, "spec.color"))
    assert "lacks spec.size, spec.color: the" in both.problem
    assert not InstalledDefinition("Widget").problem


def test_the_usual_remedy_names_the_command():
    assert remedy() == (
        "Install this operator's definitions (manta crds | kubectl apply --server-side "
        "--force-conflicts -f -) and apply the manifest again"
    )
    assert "(manta crds --kind x | kubectl apply" in remedy("manta crds --kind x")
    assert InstalledDefinition().remedy == REMEDY == remedy()


def test_a_definition_that_cannot_be_read_says_which_right_is_missing():
    assert InstalledDefinition("Widget", error="403", missing=(SIZE,)).problem == (
        "the installed definition of Widgets cannot be read (403), so that fields that it drops "
        "are found only by their consequences; grant the operator the right to read /openapi/v3, "
        "as the ClusterRole system:discovery does"
    )


@pytest.mark.parametrize(
    ("found", "status", "reason"),
    [
        (LACKING, "False", "FieldsMissing"),
        (InstalledDefinition("Widget", error="403"), "Unknown", "OpenAPIUnreadable"),
    ],
)
def test_the_condition_is_there_while_something_is_wrong(
    found: InstalledDefinition, status: str, reason: str
):
    conditions = ConditionSet((), 7, NOW)
    found.set_in(conditions)
    (only,) = conditions.as_list()
    told = (only["type"], only["status"], only["reason"], only["message"])
    assert told == (DEFINITION_COMPLETE, status, reason, found.problem)
    InstalledDefinition("Widget").set_in(conditions)
    assert conditions.as_list() == []


def test_an_event_tells_of_missing_fields_unless_the_stored_condition_does():
    event = Event("Warning", "DefinitionIncomplete", "Reconcile", LACKING.problem)
    assert LACKING.events(()) == (event,)
    stored = {"type": DEFINITION_COMPLETE, "message": LACKING.problem}
    assert LACKING.events([stored]) == ()
    assert LACKING.events([stored | {"message": "another"}]) == (event,)
    assert LACKING.events([stored | {"type": "Ready"}]) == (event,)
    assert InstalledDefinition("Widget", error="403").events(()) == ()


def test_missing_fields_that_are_longer_than_a_message_are_reported_once():
    found = replace(LACKING, missing=tuple(f"spec.field{number}" for number in range(1000)))
    conditions = ConditionSet((), 7, NOW)
    found.set_in(conditions)
    assert len(found.events(())) == 1
    assert found.events(conditions.as_list()) == ()


def test_the_definition_before_counts_while_objects_may_have_been_read_by_it(reading: Reading):
    lacks_color = schema("size")
    reading.reads.install(lacks_color, previous=PRUNED, is_current=False, error="refused")
    assert reading.of() == replace(
        LACKING, missing=("spec.color", SIZE), awaited=True, unread="refused"
    )
    reading.reads.install(PRUNED, previous=PRUNED)
    assert reading.of() == LACKING, "each is named once"


def test_an_error_counts_only_while_there_is_no_schema(reading: Reading):
    reading.reads.install(None, error="403")
    assert reading.of() == replace(LACKING, missing=(), error="403")
    reading.reads.install(WHOLE, error="503")
    assert reading.of() == replace(LACKING, missing=())


def test_an_object_that_was_edited_since_is_not_verified(reading: Reading):
    reading.reads.install(WHOLE, error="503")
    reading.reads.unverified = {(WIDGETS, KEY)}
    found = reading.of(widget())
    assert (found.unverified, found.unread, found.read) == (True, "503", None)
    assert not reading.of().unverified, "the definition itself is known"
    reading.reads.unverified = {(GADGETS, KEY), (WIDGETS, "default/v")}
    assert not reading.of(widget()).unverified


def test_a_generation_that_a_complete_definition_has_read_is_remembered_once(reading: Reading):
    reading.reads.install(WHOLE)
    found = reading.of(widget())
    assert (found.cut, found.read) == ("", ReadGeneration(7))
    reading.reads.memories["u"] = found.read
    assert reading.of(widget()) is reading.of()
    reading.reads.memories["u"] = SimpleNamespace(generation=found.read)
    assert reading.of(widget()) is reading.of(), "among other things"
    reading.reads.memories["u"] = SimpleNamespace(generation=7)
    assert reading.of(widget()).read == ReadGeneration(7)


def test_while_it_is_not_certain_nothing_counts_as_read(reading: Reading):
    reading.reads.install(WHOLE, is_current=False)
    assert reading.of(widget()).read is None
    reading.reads.install(WHOLE)
    reading.reads.unverified = {(WIDGETS, KEY)}
    assert reading.of(widget()).read is None


def test_a_generation_that_was_read_whole_stays_so_while_fields_are_missing(reading: Reading):
    reading.reads.memories["u"] = ReadGeneration(7)
    reading.reads.install(PRUNED)
    assert (reading.of(widget()).missing, reading.of(widget()).read) == ((SIZE,), None)
    reading.reads.install(WHOLE)
    assert reading.of(widget()) is reading.of()


@pytest.mark.parametrize("unverified", [False, True])
def test_an_edit_that_came_while_fields_were_missing_counts_as_cut_until_the_next_one(
    reading: Reading, unverified: bool
):
    reading.reads.install(PRUNED)
    reading.reads.unverified = {(WIDGETS, KEY)} if unverified else set()
    reading.reads.memories["u"] = ReadGeneration(7)
    found = reading.of(widget(generation=8))
    assert found.read == ReadGeneration(8, (SIZE,))
    reading.reads.memories["u"] = found.read
    reading.reads.install(WHOLE)
    reading.reads.unverified = set()
    again = reading.of(widget(generation=8))
    assert again.read is None
    assert again.cut == (
        "generation 8 was written while the installed definition of Widgets lacked spec.size, so "
        "that the API server may have dropped it. Nothing is made, until the next edit. Apply the "
        "manifest again; if that changes nothing, the specification is whole, and a restart of the "
        "operator ends this"
    )
    last = reading.of(widget(generation=9))
    assert (last.cut, last.read) == ("", ReadGeneration(9))


def of_condition(generation: Any) -> dict[str, Any]:
    """A status without a generation of its own; `Ready` is set by the runtime too."""
    ready = {"type": "Ready", "status": "True", "observedGeneration": 7}
    return {"conditions": [ready, {"type": "A", "observedGeneration": generation}]}


@pytest.mark.parametrize(
    ("status", "is_cut"),
    [
        ({"observedGeneration": 6}, True),
        ({"observedGeneration": 7}, False),
        (of_condition(6), True),
        (of_condition(7), False),
        (of_condition("odd"), False),
        ({"conditions": 7}, False),
        ("odd", False),
    ],
)
def test_a_new_process_sees_an_edit_in_a_status_of_another_generation(
    reading: Reading, status: Any, *, is_cut: bool
):
    """What has no such status was created meanwhile, or its definition has no field for it."""
    reading.reads.install(PRUNED)
    read = reading.of(widget(status=status)).read
    assert read == ReadGeneration(7, (SIZE,) if is_cut else ())


def test_of_two_definitions_the_kinds_own_counts_first(reading: Reading):
    other = DefinitionReader(GADGETS, lambda _schema: (SIZE,), "No gadget is made", "Ask us")
    both = DefinitionsReader(reading.reader, other)
    reads: Any = reading.reads
    reads.install(WHOLE)
    reads.install(WHOLE, GADGETS)
    assert both(reads, widget()).kind == "Widget"
    reads.install(PRUNED, GADGETS)
    found = both(reads, widget())
    assert (found.kind, found.missing, found.read) == ("Gadget", (SIZE,), ReadGeneration(7))
    reads.memories["u"] = ReadGeneration(7, (SIZE,))
    assert both(reads, widget()).cut.startswith("generation 7 was written")
    reads.install(PRUNED)
    assert both(reads, widget()).kind == "Widget"
