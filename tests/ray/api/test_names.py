"""KubeRay's name rules, label syntax, Ray versions."""

from __future__ import annotations

import pytest

from controller.ray.api.names import checked_label, checked_name, checked_route_name
from controller.ray.api.ray_options import is_at_least, parse_ray_version


def test_a_checked_name_keeps_the_tail_and_never_begins_with_a_digit_or_punctuation():
    assert checked_name("a" * 10 + "b" * 50) == "b" * 50
    assert checked_name("a" * 3 + "7" + "b" * 49) == "r" + "b" * 49
    assert checked_name("-a") == "ra"
    assert checked_name("") == ""


def test_the_name_of_a_route_leaves_room_for_its_namespace():
    assert checked_route_name("a" * 60, "n") == "a" * 50
    assert checked_route_name("a" * 60, "n" * 40) == "a" * 11
    assert checked_route_name("abc", "n" * 63) == "a", "no room is no reason to have no name"


def test_a_checked_label_keeps_the_tail_and_may_begin_with_a_digit():
    assert checked_label("a-" + "b" * 62) == "r" + "b" * 62
    assert checked_label("7a") == "7a"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.52.0", (2, 52, 0)), ("v2.9", (2, 9, 0)), ("2.53.0rc1", (2, 53, 0)),
        ("nightly", None), ("", None), ("2", None),
    ],
)  # fmt: skip
def test_ray_versions(text: str, version: tuple[int, int, int] | None):
    assert parse_ray_version(text) == version


def test_versions_are_compared_as_numbers_and_an_unreadable_one_is_never_new_enough():
    assert is_at_least("2.100.0", (2, 53, 0))
    assert not is_at_least("2.9.0", (2, 53, 0))
    assert not is_at_least("nightly", (2, 0, 0))
