from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.names import ALPHABET, child_name, has_generated_suffix, suffix

BASE = {"owner_uid": "u", "group": "g", "position": 0, "revision": "10"}


def test_the_same_observed_state_gives_the_same_name():
    assert child_name("c-g-worker", **BASE) == child_name("c-g-worker", **BASE)


def test_whatever_differs_gives_another_name():
    names = {child_name("c", **{**BASE, name: other}) for name, other in OTHERS.items()}
    assert len(names | {child_name("c", **BASE)}) == 5


OTHERS = {"owner_uid": "v", "group": "h", "position": 1, "revision": "11"}


def test_parts_do_not_run_together():
    assert child_name("c", **{**BASE, "owner_uid": "ug", "group": ""}) != child_name("c", **BASE)


@given(st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,80})", fullmatch=True))
def test_a_name_fits_and_has_the_form_that_others_rely_on(prefix: str):
    name = child_name(prefix, **BASE)
    head, _, suffix = name.rpartition("-")
    assert len(name) <= 63
    assert len(suffix) == 8
    assert set(suffix) <= set(ALPHABET)
    assert prefix.startswith(head)
    assert head[-1].isalnum()


def test_the_names_of_a_large_batch_are_different():
    assert len({child_name("c", **{**BASE, "position": n}) for n in range(20_000)}) == 20_000


def test_generated_suffixes_are_recognised_whole_or_cut_to_five_characters():
    generated = suffix("uid", "head", "0", "1")
    assert has_generated_suffix(f"job-{generated}")
    assert has_generated_suffix(f"job-{generated[:5]}")


@pytest.mark.parametrize("name", ["job", "job-head", "job-head-svc", "cron-29456789", "bcdfg"])
def test_other_names_have_no_generated_suffix(name: str):
    assert not has_generated_suffix(name)
