"""What a write of a plan is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.runtime.plan import JsonPatch, Replace, Write, stages_of, subresource_of, verb_of
from tests.runtime.kit import create, delete, patch, target

JSON_PATCH = JsonPatch(target(), "uid-a", ())


@pytest.mark.parametrize(
    ("write", "verb"),
    [
        (create(), "create"),
        (delete(), "delete"),
        (patch(), "update"),
        (JSON_PATCH, "update"),
        (Replace(target(), "uid-a", {}), "update"),
    ],
)
def test_patches_and_replacements_are_updates(write: Write, verb: str):
    assert verb_of(write) == verb


def test_only_patches_can_be_about_the_status():
    for write in (patch(), JSON_PATCH):
        assert subresource_of(replace(write, subresource="status")) == "status"
        assert subresource_of(write) == ""
    assert subresource_of(create()) == ""


def test_the_stages_of_groups_are_those_that_have_a_write():
    first, second = [create("a"), create("b")], (delete("c"),)
    assert stages_of((), first, iter(()), second) == ((create("a"), create("b")), (delete("c"),))
    assert stages_of() == ()
