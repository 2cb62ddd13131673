"""A definition that lacks what fleets rely on costs no copy."""

from __future__ import annotations

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.fleet.kind import RELIED_ON, RELIED_ON_IN_CLUSTERS
from tests.ray.api.test_installed_definition import without
from tests.ray.fleet.support import NEW, OLD, fleet, member, plan, told, writes


@pytest.mark.parametrize("path", ["spec.replicas", "spec.template.spec.workerGroupSpecs"])
def test_nothing_is_written_while_the_definition_of_fleets_lacks_a_field(path: str):
    schemas = {RAYCLUSTERFLEETS: without(RAYCLUSTERFLEETS, path)}
    made = plan(fleet(NEW, replicas=1), member(0, OLD), member(1, OLD), schemas=schemas)
    assert writes(made) == []
    assert made.status is None
    assert told(made) == ["DefinitionIncomplete"]
    assert made.requeue_after is not None


def test_nothing_is_written_while_that_of_rayclusters_lacks_what_is_compared():
    schemas = {RAYCLUSTERS: without(RAYCLUSTERS, "status.conditions")}
    made = plan(fleet(NEW), member(0, OLD), schemas=schemas)
    assert writes(made) == []
    assert told(made) == ["DefinitionIncomplete"]


def test_complete_definitions_hold_nothing_back():
    complete = {each: without(each) for each in (RAYCLUSTERFLEETS, RAYCLUSTERS)}
    for resource, paths in ((RAYCLUSTERFLEETS, RELIED_ON), (RAYCLUSTERS, RELIED_ON_IN_CLUSTERS)):
        schema = complete[resource].schema
        assert schema is not None
        assert [path for path in paths if schema.lacks(path)] == []
    assert len(writes(plan(fleet(), schemas=complete))) == 3
