"""What the installed definition of a kind lacks, and which edits of an object it may have cut."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.custom_object import CustomObject
from controller.apimachinery.schemas.object_schema import ObjectSchema, SchemaNode
from controller.kube.resources import Resource
from controller.runtime.kind import InstalledSchema
from controller.runtime.plan import Event
from controller.runtime.reconcile.definitions.cut_edits import PRUNED_GENERATION, ReadGenerations
from controller.runtime.reconcile.definitions.installed_definition import (
    DEFINITION_COMPLETE,
    REMEDY,
    DefinitionReader,
    DefinitionsReader,
    InstalledDefinition,
    missing_fields,
    remedy,
)
from tests.runtime.kit import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDGETS = Resource("test.dev", "v1", "widgets", "Widget", CustomObject)
GADGETS = Resource("test.dev", "v1", "gadgets", "Gadget", CustomObject)
KEY = "default/w"


def schema(*names: str) -> ObjectSchema:
    """That of objects whose specification has only these fields."""
    spec = SchemaNode(properties=dict.fromkeys((*names, "other"), SchemaNode(preserves=True)))
    return ObjectSchema(SchemaNode(properties={"spec": spec}), {})


WHOLE, PRUNED = schema("size", "color"), schema("color")
SIZE = "spec.size"


def widget(generation: int = 7, observed: int | None = 6, pruned: str = "") -> CustomObject:
    annotations = {PRUNED_GENERATION: pruned} if pruned else {}
    metadata = {"name": "w", "namespace": "default", "uid": "u", "generation": generation}
    body: dict[str, Any] = {"metadata": {**metadata, "annotations": annotations}}
    return msgspec.convert(body | {"status": {"observedGeneration": observed}}, CustomObject)


@dataclass
class Reads:
    """What a process knows."""

    schemas: dict[Resource[Any], InstalledSchema] = field(default_factory=dict)
    unverified: set[tuple[Resource[Any], str]] = field(default_factory=set)
    memories: dict[str, Any] = field(default_factory=dict)

    def install(self, found: ObjectSchema | None, resource: Any = WIDGETS, **more: Any) -> None:
        self.schemas[resource] = InstalledSchema(found, **more)

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        return self.schemas[resource]

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        return (resource, key) not in self.unverified

    def memory(self, owner_uid: str) -> Any:
        return self.memories.get(owner_uid)


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
        "Install this operator's definitions (manta crds | kubectl apply -f -) and apply the "
        "manifest again"
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


def test_what_lies_below_a_missing_field_is_not_named():
    paths = ("spec.size.width", SIZE, "spec.sizes", "spec.color")
    assert missing_fields(schema("color"), paths) == (SIZE, "spec.sizes")


def test_a_definition_is_read_once_for_each_schema(reading: Reading):
    reading.reads.install(WHOLE)
    assert reading.of() == InstalledDefinition("Widget", "Nothing is made", remedy="Mend it")
    assert reading.of() is reading.of()
    assert reading.schemas == [WHOLE]
    reading.reads.install(PRUNED)
    assert reading.of() == LACKING
    assert reading.schemas == [WHOLE, PRUNED]


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
    assert (found.cut, found.read) == (None, ReadGenerations(whole=7))
    reading.reads.memories["u"] = found.read
    assert reading.of(widget()) is reading.of()
    reading.reads.memories["u"] = "of another kind"
    assert reading.of(widget()).read == ReadGenerations(whole=7)


def test_while_it_is_not_certain_nothing_counts_as_read_whole(reading: Reading):
    reading.reads.install(WHOLE, is_current=False)
    assert reading.of(widget()).read is None
    reading.reads.install(WHOLE)
    reading.reads.unverified = {(WIDGETS, KEY)}
    assert reading.of(widget()).read is None


def test_a_generation_that_was_there_before_the_fields_were_missing_is_not_held(reading: Reading):
    reading.reads.install(PRUNED)
    found = reading.of(widget(generation=7))
    read = ReadGenerations(first=7, cut=7, missing=(SIZE,))
    assert (found.cut, found.read, found.missing) == (None, read, (SIZE,))


def test_an_edit_that_came_while_fields_were_missing_is_held(reading: Reading):
    reading.reads.install(PRUNED)
    reading.reads.memories["u"] = ReadGenerations(first=7, cut=7, missing=(SIZE,))
    found = reading.of(widget(generation=8))
    assert found.read == ReadGenerations(first=7, cut=8, missing=(SIZE,))
    assert found.cut is not None
    assert (found.cut.resource, found.cut.missing, found.cut.marked) == (WIDGETS, SIZE, False)


def test_one_that_is_not_verified_is_not_held_yet(reading: Reading):
    reading.reads.install(PRUNED)
    reading.reads.unverified = {(WIDGETS, KEY)}
    reading.reads.memories["u"] = ReadGenerations(first=7, cut=7, missing=(SIZE,))
    assert reading.of(widget(generation=8)).cut is None


def test_while_fields_are_missing_one_is_not_held_before_its_definition_is_certain(
    reading: Reading,
):
    reading.reads.install(PRUNED, is_current=False)
    reading.reads.memories["u"] = ReadGenerations(first=7, cut=7, missing=(SIZE,))
    assert reading.of(widget(generation=8)).cut is None


def test_what_an_incomplete_definition_has_read_is_held_once_that_is_complete(reading: Reading):
    reading.reads.memories["u"] = ReadGenerations(first=7, cut=7, missing=(SIZE,))
    for is_current in (False, True):
        reading.reads.install(WHOLE, is_current=is_current)
        found = reading.of(widget(generation=7, observed=6))
        assert found.cut is not None
        assert (found.cut.missing, found.read) == (SIZE, None)
    told = reading.of(widget(generation=7, observed=7))
    assert (told.cut, told.read) == (None, ReadGenerations(whole=7)), "it was acted on before"


def test_an_edit_that_is_marked_is_held_by_every_process(reading: Reading):
    reading.reads.install(WHOLE)
    found = reading.of(widget(pruned="7: spec.size"))
    assert found.cut is not None
    assert (found.cut.resource, found.cut.missing, found.cut.marked) == (WIDGETS, SIZE, True)
    assert found.read is None, "it does not count as read whole"
    assert reading.of(widget(generation=8, pruned="7: spec.size")).cut is None


def test_of_two_definitions_the_kinds_own_counts_first(reading: Reading):
    other = DefinitionReader(GADGETS, lambda _schema: (SIZE,), "No gadget is made", "Ask us")
    both = DefinitionsReader(reading.reader, other)
    reads: Any = reading.reads
    reads.install(WHOLE)
    reads.install(WHOLE, GADGETS)
    assert both(reads, widget()).kind == "Widget"
    reads.install(PRUNED, GADGETS)
    found = both(reads, widget(pruned="7: spec.size"))
    assert (found.kind, found.missing) == ("Gadget", (SIZE,))
    assert found.cut is not None
    assert both(reads, widget()).read == ReadGenerations(whole=7)
    reads.install(PRUNED)
    assert both(reads, widget()).kind == "Widget"
