"""Which generations are held because an incomplete definition may have cut them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.apimachinery.custom_object import CustomObject
from controller.kube.resources import Resource
from controller.runtime.reconcile.definitions.cut_edits import (
    CONFIRM_GENERATION,
    PRUNED_GENERATION,
    SPEC_PRUNED,
    ReadGenerations,
    generations_in,
    marked_edit,
    observed_generation,
    unmarked_edit,
)
from tests.runtime.kit import child

if TYPE_CHECKING:
    from controller.runtime.reconcile.definitions.cut_edits import CutEdit

WIDGETS = Resource("test.dev", "v1", "widgets", "Widget", CustomObject)


def widget(
    generation: int = 7, observed: int | None = 6, conditions: Any = (), **annotations: str
) -> CustomObject:
    names = {"pruned": PRUNED_GENERATION, "confirm": CONFIRM_GENERATION}
    body: dict[str, Any] = {
        "metadata": {
            "name": "w",
            "namespace": "default",
            "uid": "u",
            "generation": generation,
            "annotations": {names[key]: text for key, text in annotations.items()},
        },
        "status": {"observedGeneration": observed, "conditions": list(conditions)},
    }
    return msgspec.convert(body, CustomObject)


def held(obj: CustomObject, read: ReadGenerations, *, complete: bool = True) -> CutEdit | None:
    return unmarked_edit(WIDGETS, obj, read, complete=complete)


CUT = ReadGenerations(first=6, cut=7, missing=("spec.suspend",))


def test_an_edit_that_was_read_while_fields_were_missing_is_held():
    found = held(widget(), CUT)
    assert found is not None
    assert found.mark is not None
    assert found.mark.patch == {"metadata": {"annotations": {PRUNED_GENERATION: "7: spec.suspend"}}}
    assert (found.problem.field, found.problem.reason) == ("spec", SPEC_PRUNED)
    assert "lacked spec.suspend" in found.problem.message
    assert found.problem.message.endswith(
        "kubectl annotate widget -n default w --overwrite manta.dev/confirm-generation=7"
    )


def test_one_that_the_status_is_about_was_read_whole():
    assert held(widget(observed=7), CUT) is None


def test_one_that_this_process_has_read_whole_before_is_not_held():
    """As where the definition has no place for the generation in the status."""
    read = ReadGenerations(whole=7).read_cut(7, ["spec.suspend"])
    assert held(widget(observed=None), read) is None


def test_another_edit_ends_it():
    assert held(widget(generation=8), CUT) is None


def test_what_was_never_read_without_fields_is_not_held():
    assert held(widget(), ReadGenerations()) is None


def test_a_person_may_confirm_it_for_this_generation_only():
    assert held(widget(confirm="7"), CUT) is None
    assert held(widget(confirm="6"), CUT) is not None


def test_meanwhile_only_an_edit_is_marked_that_came_after_the_fields_were_missed():
    assert held(widget(), CUT, complete=False) is not None
    first = ReadGenerations(whole=6).read_cut(7, ["spec.suspend"])
    assert held(widget(), first, complete=False) is None
    assert held(widget(), first) is not None


def test_an_object_without_a_status_is_held():
    first = ReadGenerations().read_cut(7, ["spec.suspend"])
    assert held(widget(observed=None), first) is not None


def test_the_mark_holds_it_in_every_process():
    found = marked_edit(WIDGETS, widget(pruned="7: spec.suspend, spec.replicas"))
    assert found is not None
    assert found.mark is None
    assert "lacked spec.suspend, spec.replicas," in found.problem.message


def test_a_mark_of_another_generation_or_a_confirmed_one_holds_nothing():
    assert marked_edit(WIDGETS, widget(pruned="6: spec.suspend")) is None
    assert marked_edit(WIDGETS, widget(pruned="7: spec.suspend", confirm="7")) is None
    assert marked_edit(WIDGETS, widget(pruned="rubbish")) is None
    assert marked_edit(WIDGETS, widget()) is None


def test_a_mark_without_fields_is_one_all_the_same():
    found = marked_edit(WIDGETS, widget(pruned="7"))
    assert found is not None
    assert "lacked fields," in found.problem.message


def test_the_fields_of_all_definitions_that_read_a_generation_are_named():
    read = CUT.read_cut(7, ["spec.replicas"])
    assert read.missing == ("spec.suspend", "spec.replicas")
    assert read.read_cut(8, ["spec.replicas"]).missing == ("spec.replicas",)
    assert read.read_cut(7, ["spec.suspend"]).missing == ("spec.suspend", "spec.replicas")
    assert read.first == 6


@pytest.mark.parametrize(("others", "end"), [(9, "spec.f8"), (10, "spec.f8 and 1 more")])
def test_of_many_fields_the_first_ten_are_named(others: int, end: str):
    read = CUT.read_cut(7, [f"spec.f{number}" for number in range(others)])
    found = held(widget(), read)
    assert found is not None
    assert found.missing.startswith("spec.suspend, spec.f0")
    assert found.missing.endswith(end)


def test_without_a_generation_of_its_own_the_status_has_that_of_its_conditions():
    """`Ready` is set by the runtime too, when a kind itself fails."""
    conditions = [
        {"type": "Ready", "observedGeneration": 9},
        {"type": "A", "observedGeneration": 5},
        {"type": "B", "observedGeneration": "odd"},
        {"type": "C", "observedGeneration": 6},
    ]
    assert observed_generation(widget(observed=None, conditions=conditions)) == 6
    assert observed_generation(widget(observed=None)) is None
    assert observed_generation(widget(observed=4, conditions=conditions)) == 4


def test_what_has_no_status_has_no_observed_generation():
    assert observed_generation(child()) is None


@pytest.mark.parametrize(
    "status", [None, "odd", [], {"observedGeneration": "7"}, {"conditions": 7}, {"conditions": [7]}]
)
def test_a_status_that_cannot_be_read_does_not_say_that_the_edit_was_read_whole(status: Any):
    odd = msgspec.structs.replace(widget(), status=status)
    assert observed_generation(odd) is None
    assert held(odd, CUT) is not None


def test_generations_are_found_in_a_memory_that_holds_them_alone_or_among_others():
    read = ReadGenerations(whole=7)
    assert generations_in(read) is read
    assert generations_in(SimpleNamespace(generations=read)) is read
    for other in (None, "text", SimpleNamespace(generations=None)):
        assert generations_in(other) == ReadGenerations()
