"""Reading the plain data of custom resources, which any writer may have filled."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.custom_object import read_conditions

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "AllReady",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 7,
}


@pytest.mark.parametrize("odd", [None, True, 7, {}, {"a": 1}, ["True"]])
@pytest.mark.parametrize("field", ["status", "reason", "message", "lastTransitionTime"])
def test_what_is_no_text_in_a_condition_counts_as_absent(field: str, odd: Any):
    rest = {name: value for name, value in CONDITION.items() if name != field}
    assert read_conditions([CONDITION | {field: odd}, CONDITION]) == [rest, CONDITION]


@pytest.mark.parametrize("odd", [None, 7, [], {}, {"type": 7}])
def test_a_condition_without_a_type_is_none(odd: Any):
    assert read_conditions([odd, CONDITION]) == [CONDITION]
    assert read_conditions({"0": CONDITION}) is None
