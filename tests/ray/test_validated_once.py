"""An object is validated when its specification is new, not after each change of its status."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from controller.kube.resources import Resource
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster import kind as cluster_kind
from controller.ray.cronjob import RayCronJobKind
from controller.ray.cronjob import kind as cron_job_kind
from controller.ray.fleet import RayClusterFleetKind
from controller.ray.fleet import kind as fleet_kind
from controller.ray.job import RayJobKind
from controller.ray.job import kind as job_kind
from controller.ray.service import RayServiceKind
from controller.ray.service import observation as service_goal
from controller.runtime.kind import Kind
from controller.testing.reads import FakeReads

KINDS = [
    (cluster_kind, "validate_cluster", RayClusterKind, RAYCLUSTERS),
    (cron_job_kind, "validate_cron_job", RayCronJobKind, RAYCRONJOBS),
    (fleet_kind, "validate_fleet", RayClusterFleetKind, RAYCLUSTERFLEETS),
    (job_kind, "validate_job", RayJobKind, RAYJOBS),
    (service_goal, "validate_service", RayServiceKind, RAYSERVICES),
]


@pytest.mark.parametrize(("module", "validate", "kind", "resource"), KINDS)
def test_only_an_edit_is_validated_again(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    validate: str,
    kind: Callable[[], Kind[Any]],
    resource: Resource[Any],
):
    counted = Mock(wraps=getattr(module, validate))
    monkeypatch.setattr(module, validate, counted)
    made = kind()
    reads = FakeReads(made)

    def observe(generation: int, revision: str) -> int:
        metadata = {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            "generation": generation,
            "resourceVersion": revision,
        }
        raw = {"metadata": metadata, "spec": {}, "status": {"seen": revision}}
        reads.add(resource, msgspec.convert(raw, resource.view))
        assert made.observe("default/a", reads) is not None
        return counted.call_count

    assert [observe(1, "10"), observe(1, "11"), observe(1, "12")] == [1, 1, 1]
    assert observe(2, "13") == 2
    reads.objects.clear()
    assert made.observe("default/a", reads) is None
    assert observe(2, "13") == 3  # it was forgotten when it was gone
