from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.metadata import ALPHABET, child_name, has_generated_suffix, suffix
from controller.apimachinery.redaction import fold

BASE = {"owner_uid": "u", "group": "g", "position": 0, "revision": "10"}


def test_the_same_observed_state_gives_the_same_name():
    assert child_name("c-g-worker", **BASE) == child_name("c-g-worker", **BASE)


def test_whatever_differs_gives_another_name():
    names = {child_name("c", **{**BASE, name: other}) for name, other in OTHERS.items()}
    assert len(names | {child_name("c", **BASE)}) == 5


OTHERS = {"owner_uid": "v", "group": "h", "position": 1, "revision": "11"}


@given(st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,80})", fullmatch=True))
def test_a_name_fits_and_has_the_form_that_others_rely_on(prefix: str):
    name = child_name(prefix, **BASE)
    head, _, suffix = name.rpartition("-")
    assert len(name) <= 63
    assert len(suffix) == 8
    assert set(suffix) <= set(ALPHABET)
    assert prefix.startswith(head)
    assert head[-1].isalnum()


def test_generated_suffixes_are_recognised_whole_or_cut_to_five_characters():
    generated = suffix("uid", "head", "0", "1")
    assert has_generated_suffix(f"job-{generated}")
    assert has_generated_suffix(f"job-{generated[:5]}")


@pytest.mark.parametrize("name", ["job", "job-head", "job-head-svc", "cron-29456789", "bcdfg"])
def test_other_names_have_no_generated_suffix(name: str):
    assert not has_generated_suffix(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("request 17 failed", "request 4093 failed"),
        (
            "id 6ba7b810-9dad-11d1-80b4-00c04fd430c8: no",
            "id ffffffff-aaaa-1bbb-cccc-dddddddddddd: no",
        ),
        ("trace deadbeefcafe", "trace 0123456789ab"),
        ("dial tcp 10.0.3.7:41234: refused", "dial tcp 10.11.0.200:9: refused"),
        ("dial tcp [fe80::1]:80", "dial tcp [2001:db8::ff00:42:8329]:443"),
        ("at 2026-01-01T00:00:07Z", "at 2027-11-30T23:59:59.123456+02:00"),
        ("after 1m3.5s", "after 10s"),
    ],
)
def test_what_varies_is_folded(one: str, other: str):
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cannot create pods", "cannot delete pods"),
        ('webhook "a.example.com"', 'webhook "b.example.com"'),
        ("limits.cpu: exceeded", "limits.memory: exceeded"),
    ],
)
def test_what_names_something_is_kept(one: str, other: str):
    assert fold(one) != fold(other)
