from __future__ import annotations

import pytest

from controller.devcluster.apiserver.resources import version_priority


@pytest.mark.parametrize(
    "versions", [["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "other"]]
)
def test_stable_and_newer_versions_come_first(versions):
    assert sorted(set(versions), key=version_priority) == versions
