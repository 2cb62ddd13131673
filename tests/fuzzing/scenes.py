"""A valid object of each kind with everything that the operator has made for it, as plain data."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from controller.command.kinds import KindSettings, kinds_to_plan
from controller.command.planning.dry_run import DryRun, with_created_kinds
from controller.command.planning.snapshot import Snapshot
from controller.kube.resources import Resource
from controller.ray.api import FeatureGates
from controller.ray.api.feature_gates import EXISTING_NODES, GATES
from controller.runtime.kind import Kind
from tests.fuzzing.lived import LIVES, Life, lived
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import example_cluster
from tests.integration.inferencesets import set_manifest
from tests.integration.rays import job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.test_all_kinds import cron_job
from tests.kaito.support import raw_workspace

Json = dict[str, Any]

MANIFESTS: dict[str, Json] = {
    "RayCluster": example_cluster(),
    "RayJob": job_manifest(),
    "RayCronJob": cron_job("cron", "* * * * *"),
    "RayService": service_manifest(),
    "RayClusterFleet": fleet_manifest(),
    "Workspace": raw_workspace(),
    "InferenceSet": set_manifest(),
}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGIN + timedelta(minutes=10)


@dataclass(frozen=True)
class Scene:
    """An object and its children at rest.

    Attributes:
        objects: by resource, as the API server has them.
    """

    kind: Kind[Any]
    key: str
    objects: dict[Resource[Any], list[Json]]

    def observed(self) -> Snapshot:
        """What the caches show of the objects."""
        snapshot = Snapshot([self.kind], now=NOW)
        for resource, objects in self.objects.items():
            snapshot.add(resource, objects)
        return snapshot


SCENES = (*MANIFESTS, *LIVES)


@cache
def scene(name: str) -> Scene:
    """An object of this kind, or after such a life."""
    return _lived(LIVES[name]) if name in LIVES else _planned(name)


def _lived(life: Life) -> Scene:
    """What was stored when its object had become well."""
    objects = lived(life)
    return Scene(life.kinds()[0], f"default/{life.body['metadata']['name']}", objects)


def _planned(name: str) -> Scene:
    """The object of this kind, after somebody has created it."""
    gates = FeatureGates(dict.fromkeys(GATES.keys() - {EXISTING_NODES}, True))
    kinds = kinds_to_plan(KindSettings.from_environment(gates, {}))
    [kind] = [each for each in kinds if each.primary.kind == name]
    together = with_created_kinds(kind, kinds)
    stored = copy.deepcopy(MANIFESTS[name])
    stored["metadata"] |= {
        "namespace": "default",
        "uid": "uid-of-it",
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    snapshot = Snapshot(together, now=BEGIN)
    for each in together:
        for owned in each.owned:
            snapshot.add(owned.resource, ())
    snapshot.add(kind.primary, [stored])
    key = f"default/{stored['metadata']['name']}"
    DryRun(snapshot, BEGIN).reconcile_with_created(together, key, patience=timedelta(minutes=1))
    watched = {kind.primary, *(owned.resource for owned in kind.owned)}
    contents = snapshot.contents()
    objects = {
        each: msgspec.json.decode(msgspec.json.encode(list(contents[each].values())))
        for each in contents
        if each in watched
    }
    return Scene(kind, key, objects)
