"""The strategy in force, from the field or the annotation, and what its numbers mean."""

from __future__ import annotations

import msgspec
import pytest

from controller.apimachinery.problem import Problem
from controller.ray.api import ClusterSpec, labels, validate_cluster
from controller.ray.api.upgrade_strategy import (
    RayClusterUpgradeStrategy,
    RollingUpdate,
    strategy_in_force,
)
from tests.ray.cluster.support import cluster, manifest


def in_force(text: str, **given: object) -> RayClusterUpgradeStrategy | Problem:
    strategy = msgspec.convert(given, RayClusterUpgradeStrategy)
    return strategy_in_force(strategy, {labels.UPGRADE_STRATEGY: text})


def test_a_valid_cluster_has_the_strategy_of_its_annotation():
    raw = manifest()
    text = '{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "paused": true}}'
    raw["metadata"]["annotations"] = {labels.UPGRADE_STRATEGY: text}
    spec = validate_cluster(cluster(raw))
    assert isinstance(spec, ClusterSpec)
    assert spec.upgrade_strategy.rolling == RollingUpdate(max_surge="25%", paused=True)


@pytest.mark.parametrize("text", ["RollingUpdate", " RollingUpdate\n", '{"type":"RollingUpdate"}'])
def test_the_bare_type_has_the_defaults(text: str):
    strategy = in_force(text)
    assert isinstance(strategy, RayClusterUpgradeStrategy)
    assert strategy.rolling == RollingUpdate(
        max_unavailable=0,
        max_surge=1,
        max_parallel_groups=1,
        drain_timeout_seconds=300,
        progress_deadline_seconds=600,
        paused=False,
    )


@pytest.mark.parametrize("kind", [None, "None", "Recreate"])
def test_other_strategies_roll_nothing(kind: str | None):
    assert RayClusterUpgradeStrategy(type=kind).rolling is None


@pytest.mark.parametrize(
    "text", ["[" * 900, '{"type":' * 110, '"\ud800"', "\x00", "1e999", "null", "{" + " " * 2000]
)
def test_an_annotation_of_any_content_is_a_problem_that_shows_how_to_write_it(text: str):
    problem = in_force(text)
    assert isinstance(problem, Problem)
    assert 'write RollingUpdate, or JSON such as {"type"' in problem.message
    assert len(str(problem)) < 500


@pytest.mark.parametrize(
    ("amounts", "desired", "surge", "unavailable"),
    [
        ({}, 3, 1, 0),
        ({"max_surge": "10%", "max_unavailable": "10%"}, 15, 2, 1),
        ({"max_surge": "100%"}, 3, 3, 0),
        ({"max_surge": "150%"}, 3, 5, 0),
        ({"max_surge": 0, "max_unavailable": 2}, 3, 0, 2),
        ({"max_surge": 5, "max_unavailable": 5}, 0, 5, 5),
        ({"max_surge": "10%"}, 0, 0, 1),
        ({"max_surge": 0, "max_unavailable": "10%"}, 3, 0, 1),  # or nothing could move
        ({"max_surge": 0, "max_unavailable": "10%"}, 0, 0, 1),
    ],
)
def test_surge_rounds_up_and_unavailable_rounds_down(
    amounts: dict[str, int | str], desired: int, surge: int, unavailable: int
):
    rolling = msgspec.structs.replace(RollingUpdate(), **amounts)
    assert (rolling.surge_of(desired), rolling.unavailable_of(desired)) == (surge, unavailable)
