"""Every body that a Workspace creates is, field for field, what its golden file says."""

from __future__ import annotations

import pytest

from tests.kaito.workloads.given import abridged, golden_names, read_golden


@pytest.mark.parametrize("name", list(golden_names()))
def test_a_workspace_creates_what_its_golden_file_says(name: str):
    given, expected = read_golden(name)
    made = given.bodies()
    assert {kind: abridged(made[kind]) for kind in expected} == expected
