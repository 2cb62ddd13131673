"""The condition that names fields over which two writers disagree."""

from __future__ import annotations

from controller.runtime.reconcile.repairs import Repair, with_contested
from tests.runtime.kit import NOW, target

READY = {"type": "Ready", "status": "True"}


def contested(name: str) -> Repair:
    return Repair(
        target(name), ("data", "colour"), "red", count=3, at=0.0, needed_at=0.0, writer="mesh"
    )


def test_the_condition_names_every_field_in_the_same_order_each_time():
    wanted = {"children": 3, "conditions": [READY]}
    sentence = (
        "mesh keeps changing data.colour of ConfigMap {}; it is repaired at most once a minute: "
        "configure or stop one of the two writers"
    )
    assert with_contested(wanted, [contested("b"), contested("a")], 7, NOW) == {
        "children": 3,
        "conditions": [
            READY,
            {
                "type": "FieldsContested",
                "status": "True",
                "reason": "AnotherWriter",
                "message": f"{sentence.format('a')}; {sentence.format('b')}",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 7,
            },
        ],
    }


def test_of_many_fields_the_condition_names_eight_and_gives_the_number_of_the_others():
    repairs = [contested(f"{number:03}") for number in range(100)]
    (_, condition) = with_contested({"conditions": [READY]}, repairs, 7, NOW)["conditions"]
    assert condition["message"].count("mesh keeps changing") == 8
    assert condition["message"].endswith(
        "ConfigMap 007; it is repaired at most once a minute: "
        "configure or stop one of the two writers; and so with 92 more"
    )


def test_the_condition_goes_with_the_last_such_field():
    present = {"conditions": [READY, {"type": "FieldsContested", "status": "True"}]}
    assert with_contested(present, [], 7, NOW) == {"conditions": [READY]}


def test_a_status_without_conditions_gets_none():
    assert with_contested({"children": 3}, [contested("a")], 7, NOW) == {"children": 3}
