"""What explains that pods are replaced."""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.cluster.rolling import is_explained
from controller.runtime.reconcile.definitions import InstalledDefinition
from tests.ray.cluster.upgrade.rolling.scenes import (
    observed_object,
    recorded,
    rolling,
    upgrading,
)


def explained(obj: Any, *, only_head: bool = False, **changes: Any) -> bool:
    return is_explained(observed_object(obj, **changes), only_head=only_head)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, False),
        ({"counted": 0}, True),
        ({"observed": 0}, True),
        ({"counted": 0, "observed": 0}, True),
    ],
)
def test_an_edit_explains_what_was_not_counted_yet(numbers: dict[str, int], *, expected: bool):
    assert explained(recorded(rolling(1), **numbers)) is expected


def test_nothing_is_explained_while_the_definition_lacks_settings():
    obj = recorded(rolling(1), counted=0)
    lacks = InstalledDefinition(missing=("spec.upgradeStrategy.rollingUpdate.paused",))
    assert not explained(obj, definition=lacks)
    assert explained(obj, definition=InstalledDefinition(missing=("spec.other",)))


@pytest.mark.parametrize(
    ("condition", "only_head", "expected"),
    [
        (upgrading(), False, True),
        (upgrading(status="False"), False, False),
        (upgrading("HeadNeedsFaultTolerance"), False, False),
        (upgrading("HeadNeedsFaultTolerance"), True, True),
    ],
)
def test_an_update_that_is_under_way_continues(
    condition: dict[str, Any], *, only_head: bool, expected: bool
):
    assert explained(recorded(rolling(1), condition), only_head=only_head) is expected


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("False", "UpgradeStrategyNone", True),
        ("True", "UpgradeStrategyNone", False),
        ("False", "Other", False),
    ],
)
def test_pods_that_were_reported_as_outdated_before_are_explained(
    status: str, reason: str, *, expected: bool
):
    reported = {"type": "PodsUpToDate", "status": status, "reason": reason}
    assert explained(recorded(rolling(1), reported)) is expected
