"""Whatever stands in a RayCluster, planning says what is wrong instead of raising."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import DesiredCluster
from controller.runtime.plan import Plan
from tests.ray.cluster.support import NOW, cluster, head, manifest, reads, workers
from tests.ray.plain_data import paths, with_value

FEATURES = sorted(
    (Path(__file__).parents[1] / "pods" / "golden" / "features").glob("*.cluster.yaml")
)
ODD: list[Any] = [
    None,
    -1,
    2**31 - 1,
    1.5,
    "x",
    "",
    [],
    {},
    True,
    [None],
    ["x"],
    {"a": 5},
    {"a": None},
    [[]],
]


def plans(raw: dict[str, Any]) -> Iterator[Plan]:
    """What is planned for the object with and without its pods, after failed writes too."""
    obj, kind = cluster(copy.deepcopy(raw)), RayClusterKind()
    for pods in ((), (head(), *workers(2))):
        seen = kind.observe("default/example", reads(obj, *pods))
        assert seen is not None
        plan = kind.plan(seen, NOW)
        kind.status_after(seen, plan, (), NOW)
        yield plan


def full() -> dict[str, Any]:
    """A manifest with a status."""
    raw = manifest("raycluster-autoscaler.yaml")
    *_, plan = plans(raw)
    assert plan.status is not None
    wanted = {key: value for key, value in plan.status.wanted.items() if value is not None}
    return raw | {"status": wanted}


FULL = full()


@pytest.mark.slow
@pytest.mark.parametrize("manifest_", FEATURES, ids=lambda path: path.name.split(".")[0])
def test_a_feature_of_any_shape_has_pods_or_a_problem(manifest_: Path):
    raw = yaml.safe_load(manifest_.read_text())
    tried = 0
    for path in paths(raw["spec"]):
        for value in ODD if path else ():
            design = RayClusterKind()._desired(cluster(with_value(raw, ("spec", *path), value)))
            if isinstance(design, DesiredCluster):
                groups = design.spec.worker_group_specs
                bodies = [design.builder.head("a")]
                bodies += [design.builder.workers(group)("a", None) for group in groups]
                msgspec.json.encode(bodies)
            tried += 1
    assert tried >= len(ODD)


def test_a_status_of_the_wrong_type_is_written_anew():
    raw = FULL | {"status": {"head": "x", "conditions": "x", "endpoints": 5, "state": []}}
    *_, plan = plans(raw)
    assert plan.status is not None
    assert plan.status.wanted["head"]["podName"] == head().metadata.name
    assert {c["type"] for c in plan.status.wanted["conditions"]} >= {"Ready", "HeadPodReady"}
