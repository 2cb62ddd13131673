"""RayClusterFleets: the typed specification, and what can be wrong with it."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
import yaml

from controller.apimachinery.validation import Problem
from controller.ray.api.rayclusterfleet import FleetSpec, RayClusterFleet, validate_fleet
from tests.ray.api.definitions.test_definitions import validate
from tests.ray.cluster.support import EXAMPLES, manifest

TEMPLATE = "spec.template.spec"


def fleet(name: str = "fleet", template: dict[str, Any] | None = None, **spec: Any) -> Any:
    body = {
        "metadata": {"name": name},
        "spec": {"template": template or {"spec": manifest()["spec"]}} | spec,
    }
    return msgspec.convert(body, RayClusterFleet)


def of_cluster(**changes: Any) -> RayClusterFleet:
    return fleet(template={"spec": manifest()["spec"] | changes})


def test_without_more_than_a_template_there_is_one_copy_and_an_upgrade_adds_one():
    spec = validate_fleet(fleet())
    assert isinstance(spec, FleetSpec)
    assert spec.replicas == 1
    assert (spec.strategy.max_surge, spec.strategy.max_unavailable) == (1, 0)
    assert spec.strategy.progress_deadline_seconds == 600
    assert not spec.strategy.paused
    assert not spec.suspended


def test_copies_are_suspended_by_the_field_of_their_cluster():
    spec = validate_fleet(of_cluster(suspend=True))
    assert isinstance(spec, FleetSpec)
    assert spec.suspended


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        (fleet("f" * 40), "metadata.name", "at most 39"),
        (fleet("1fleet"), "metadata.name", "begin with a letter"),
        (fleet(replicas=-1), "spec.replicas", "Expected `int` >= 0"),
        (fleet(replicas=1000), "spec.replicas", "Expected `int` <= 999"),
        (fleet(template={"spec": {}}), f"{TEMPLATE}", "headGroupSpec"),
        (fleet(template={"metadata": {"labels": {"a": 1}}, "spec": {}}), "spec.template", "str"),
        (fleet(strategy={"maxSurge": 0}), "spec.strategy.maxUnavailable", "must not be 0"),
        (fleet(strategy={"maxSurge": "x%"}), "spec.strategy.maxSurge", "such as 25%"),
        (fleet(strategy={"maxSurge": -1}), "spec.strategy.maxSurge", "0 or more"),
        (fleet(strategy={"maxUnavailable": "101%"}), "spec.strategy.maxUnavailable", "100%"),
        (of_cluster(workerGroupSpecs={}), f"{TEMPLATE}.workerGroupSpecs", "Expected `array"),
        (of_cluster(upgradeStrategy={"type": "Recreate"}), f"{TEMPLATE}.upgradeStrategy", "cannot"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(wrong: RayClusterFleet, field: str, words: str):
    problem = validate_fleet(wrong)
    assert isinstance(problem, Problem)
    assert problem.field.startswith(field), problem
    assert words in problem.message, problem
    where = "Metadata" if field.startswith("metadata") else "Spec"
    assert problem.reason == f"InvalidRayClusterFleet{where}"


def test_annotations_of_the_template_count_for_its_clusters():
    template = {
        "metadata": {"annotations": {"ray.io/ft-enabled": "false"}},
        "spec": manifest()["spec"] | {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
    }
    problem = validate_fleet(fleet(template=template))
    assert isinstance(problem, Problem)
    assert "ray.io/ft-enabled" in str(problem)


def test_two_copies_cannot_have_one_head_service():
    spec = copy.deepcopy(manifest()["spec"])
    spec["headGroupSpec"]["headService"] = {"metadata": {"name": "mine"}}
    problem = validate_fleet(fleet(template={"spec": spec}))
    assert isinstance(problem, Problem)
    assert problem.field == f"{TEMPLATE}.headGroupSpec.headService.metadata.name"
    assert "a head service of its own" in problem.message


def test_two_copies_cannot_store_their_state_in_one_volume():
    options = {"backend": "rocksdb", "storage": {"claimName": "mine"}}
    problem = validate_fleet(of_cluster(gcsFaultToleranceOptions=options))
    assert isinstance(problem, Problem)
    assert problem.field == f"{TEMPLATE}.gcsFaultToleranceOptions.storage.claimName"


@pytest.mark.parametrize(
    ("strategy", "copies", "surge", "unavailable"),
    [
        ({}, 5, 1, 0),
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, 5, 2, 1),
        ({"maxSurge": "0%", "maxUnavailable": "10%"}, 5, 0, 1),
        ({"maxSurge": "0%", "maxUnavailable": "10%"}, 0, 0, 1),
        ({"maxSurge": 3, "maxUnavailable": 2}, 1, 3, 2),
    ],
)
def test_percentages_round_the_surge_up_and_the_missing_down(
    strategy: dict[str, Any], copies: int, surge: int, unavailable: int
):
    spec = validate_fleet(fleet(strategy=strategy))
    assert isinstance(spec, FleetSpec)
    assert spec.strategy.surge_of(copies) == surge
    assert spec.strategy.unavailable_of(copies) == unavailable


def test_the_example_is_valid_and_has_no_unknown_fields():
    document = yaml.safe_load((EXAMPLES / "rayclusterfleet.yaml").read_text())
    validate(document)
    assert isinstance(validate_fleet(msgspec.convert(document, RayClusterFleet)), FleetSpec)
