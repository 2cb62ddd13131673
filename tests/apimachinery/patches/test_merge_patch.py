from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.patches import apply_merge_patch, difference, holds_list, replacement

values = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ],
)
def test_patches_are_applied_as_rfc_7386_says(document: Any, patch: Any, result: Any):
    assert apply_merge_patch(document, patch) == result


@given(documents, documents)
def test_the_difference_leads_to_what_is_wanted_and_then_there_is_none(current, wanted):
    patch = difference(current, wanted)
    after = apply_merge_patch(current, patch)
    for name, value in wanted.items():
        if isinstance(value, dict):
            assert difference(after.get(name), value) == {}
        else:
            assert after[name] == value
    assert difference(after, wanted) == {}
    assert {k: v for k, v in after.items() if k not in wanted} == {
        k: v for k, v in current.items() if k not in wanted
    }


@given(documents, documents)
def test_after_a_replacement_nothing_is_left_but_what_is_wanted(current, wanted):
    assert apply_merge_patch(current, replacement(current, wanted)) == wanted


def test_what_is_absent_need_not_be_removed():
    assert (
        difference({"a": "", "b": 0, "c": []}, {"a": None, "b": None, "c": None, "d": None}) == {}
    )
    assert difference({"a": "x"}, {"a": None}) == {"a": None}


def test_lists_are_found_at_any_depth():
    assert holds_list({"a": {"b": [1]}})
    assert not holds_list({"a": {"b": "text"}})


def test_tuples_of_views_are_lists():
    view = {"conditions": ({"type": "Ready", "parts": (1, 2)},)}
    plain = {"conditions": [{"type": "Ready", "parts": [1, 2]}]}
    assert difference(view, plain) == {}
    assert difference(view, {"conditions": []}) == {"conditions": []}
    assert holds_list({"a": (1,)})
