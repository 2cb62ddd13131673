"""The goal of a Workspace is read when its specification is new."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace import observation
from tests.kaito.workspace.given import Given


def test_only_an_edit_is_validated_again(monkeypatch: pytest.MonkeyPatch):
    counted = Mock(wraps=observation.validate_workspace)
    monkeypatch.setattr(observation, "validate_workspace", counted)
    given = Given()
    key = given.workspace.metadata.key

    def observe(revision: str, **metadata: Any) -> int:
        meta = msgspec.structs.replace(
            given.workspace.metadata, resource_version=revision, **metadata
        )
        seen = msgspec.structs.replace(given.workspace, metadata=meta, status={"seen": revision})
        given.reads.add(WORKSPACES, seen)
        assert given.kind.observe(key, given.reads) is not None
        return counted.call_count

    assert [observe("10"), observe("11"), observe("12")] == [1, 1, 1]
    assert observe("13", generation=7) == 2
    del given.reads.objects[WORKSPACES.plural, key]
    assert given.kind.observe(key, given.reads) is None
    assert observe("13", generation=7) == 3  # it was forgotten when it was gone
