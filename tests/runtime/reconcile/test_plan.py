"""What a write of a plan is about."""

from __future__ import annotations

import pytest

from controller.runtime.plan import JsonPatch, Replace, Write, verb_of
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
