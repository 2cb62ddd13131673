"""What installed definitions lack of what the planners rely on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.apimachinery.object_schema import GroupVersionKind, ObjectSchema, parse_schemas
from controller.kaito.api.definitions import kaito_definitions
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, custom_resource_definitions
from controller.ray.api.definitions import CLUSTER_FIELDS, job_fields
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.cluster.held_deletions import (
    RELIED_ON,
    ROLLING_FIELDS,
    explains,
    explains_rolling,
)
from controller.ray.cluster.held_deletions import definition_reader as of_clusters
from controller.ray.cluster.rollout import DeletionCause
from controller.ray.cronjob.kind import definitions_reader as of_cron_jobs
from controller.ray.job.plan import definition_reader as of_jobs
from controller.ray.service.observation import RELIED_ON as BY_SERVICES
from controller.ray.service.observation import RELIED_ON_IN_CLUSTERS
from controller.ray.service.observation import definitions_reader as of_services
from controller.runtime.definitions import InstalledDefinition
from controller.runtime.kind import InstalledSchema
from tests.ray.api.definitions.test_definitions import kuberay
from tests.ray.api.definitions.test_definitions import schema as stored_schema

READERS: dict[Resource[Any], Callable[[], Any]] = {
    RAYCLUSTERS: of_clusters,
    RAYJOBS: of_jobs,
    RAYCRONJOBS: of_cron_jobs,
    RAYSERVICES: of_services,
}
KINDS = pytest.mark.parametrize("resource", READERS, ids=lambda resource: resource.kind)


def published(resource: Resource[Any], schema: dict[str, Any]) -> ObjectSchema:
    kind = GroupVersionKind(resource.group, resource.version, resource.kind)
    gvk = {"x-kubernetes-group-version-kind": [msgspec.to_builtins(kind)]}
    document = {"components": {"schemas": {"it": schema | gvk}}}
    found = parse_schemas(msgspec.json.encode(document), {kind}).get(kind)
    assert found is not None
    return found


@cache
def own_schema(resource: Resource[Any]) -> dict[str, Any]:
    definitions = [*custom_resource_definitions(), *kaito_definitions()]
    [own] = [each for each in definitions if each["metadata"]["name"] == str(resource)]
    [version] = [each for each in own["spec"]["versions"] if each["name"] == resource.version]
    return version["schema"]["openAPIV3Schema"]


def without(resource: Resource[Any], *paths: str) -> InstalledSchema:
    schema = copy.deepcopy(own_schema(resource))
    for path in paths:
        *parents, last = path.split(".")
        node = schema
        for name in parents:
            node = node["properties"][name]
            node = node.get("items", node)
        del node["properties"][last]
    return InstalledSchema(published(resource, schema))


def read(
    resource: Resource[Any], key: str = "default/a", **installed: InstalledSchema
) -> InstalledDefinition:
    """What the kind reads if these are installed, by kind."""
    reads: Any = SimpleNamespace(
        installed_schema=lambda wanted: installed.get(wanted.kind, InstalledSchema()),
        is_verified=lambda wanted, key: (wanted, key) != (resource, "default/edited"),
        record=lambda _uid: SimpleNamespace(memory=None),
    )
    namespace, name = key.split("/")
    return READERS[resource]()(reads, KubeObject(ObjectMeta(name=name, namespace=namespace)))


COMPLETE_JOB = published(RAYJOBS, own_schema(RAYJOBS))
COMPLETE_CRON_JOB = published(RAYCRONJOBS, own_schema(RAYCRONJOBS))


@KINDS
def test_the_operators_own_definition_lacks_nothing(resource: Resource[Any]):
    found = read(resource, **{each.kind: without(each) for each in READERS})
    assert found.problem == ""
    assert all(explains(found, cause) for cause in DeletionCause)


@KINDS
def test_kuberays_definition_lacks_nothing(resource: Resource[Any]):
    schema = InstalledSchema(published(resource, stored_schema(kuberay(resource.kind))))
    assert read(resource, **{resource.kind: schema}).problem == ""


@pytest.mark.parametrize(
    ("paths", "missing", "undecidable"),
    [
        (["spec.workerGroupSpecs.numOfHosts"], None, {"RESIZED"}),
        (["spec.workerGroupSpecs.replicas"], None, {"SURPLUS"}),
        (["spec.enableInTreeAutoscaling"], None, {"SURPLUS"}),
        (["spec.workerGroupSpecs"], None, {"GROUP_REMOVED", "SURPLUS", "RESIZED"}),
        (["spec.upgradeStrategy.rollingUpdate"], None, set[str]()),
        (["spec.suspend", "spec.workerGroupSpecs.priority"], [], set[str]()),
    ],
)
def test_a_missing_field_leaves_its_deletions_undecidable(
    paths: list[str], missing: list[str] | None, undecidable: set[str]
):
    found = read(RAYCLUSTERS, RayCluster=without(RAYCLUSTERS, *paths))
    assert list(found.missing) == (paths if missing is None else missing)
    assert {cause.name for cause in DeletionCause if not explains(found, cause)} == undecidable


def test_the_number_of_workers_follows_from_the_same_fields_in_every_kind():
    assert set(RELIED_ON) == {f"spec.{path}" for path in CLUSTER_FIELDS}


@pytest.mark.parametrize("path", sorted(ROLLING_FIELDS))
def test_a_definition_that_lets_rolling_updates_through_must_have_all_their_settings(path: str):
    found = read(RAYCLUSTERS, RayCluster=without(RAYCLUSTERS, path))
    assert found.missing == (path,)
    assert not explains_rolling(found)
    assert explains_rolling(read(RAYCLUSTERS, RayCluster=without(RAYCLUSTERS)))


def test_a_definition_without_upgrade_strategies_lacks_no_settings_of_one():
    found = read(RAYCLUSTERS, RayCluster=without(RAYCLUSTERS, "spec.upgradeStrategy"))
    assert (found.missing, explains_rolling(found)) == ((), True)


@pytest.mark.parametrize("path", [*job_fields(COMPLETE_JOB, "spec"), "status", "status.jobId"])
def test_a_rayjob_relies_on_what_starts_repeats_or_deletes_something(path: str):
    assert path in str(read(RAYJOBS, RayJob=without(RAYJOBS, path)).missing)


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        *((RAYCRONJOBS, path) for path in job_fields(COMPLETE_CRON_JOB, "spec.jobTemplate")),
        (RAYCRONJOBS, "spec.suspend"),
        (RAYCRONJOBS, "spec.timeZone"),
        (RAYCRONJOBS, "spec.concurrencyPolicy"),
        (RAYCRONJOBS, "spec.startingDeadlineSeconds"),
        (RAYCRONJOBS, "status.lastScheduleTime"),
        (RAYJOBS, "status.jobDeploymentStatus"),
        (RAYJOBS, "status.jobStatus"),
        (RAYJOBS, "spec.suspend"),
    ],
)
def test_a_raycronjob_relies_on_two_definitions(resource: Resource[Any], path: str):
    schemas = {each.kind: without(each) for each in (RAYCRONJOBS, RAYJOBS)}
    schemas[resource.kind] = without(resource, path)
    found = read(RAYCRONJOBS, **schemas)
    assert found.missing == (path,)
    assert f"the installed definition of {resource.kind}s lacks {path}:" in found.problem


def leaves(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(p for p in paths if not any(other.startswith(f"{p}.") for other in paths))


def roots(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(p for p in paths if not any(p.startswith(f"{other}.") for other in paths))


@pytest.mark.parametrize("part", [leaves, roots])
@pytest.mark.parametrize(
    ("resource", "relied_on"),
    [(RAYSERVICES, BY_SERVICES), (RAYCLUSTERS, RELIED_ON_IN_CLUSTERS)],
    ids=["RayService", "RayCluster"],
)
def test_a_rayservice_relies_on_two_definitions(
    resource: Resource[Any],
    relied_on: tuple[str, ...],
    part: Callable[[Iterable[str]], tuple[str, ...]],
):
    paths = part(relied_on)
    found = read(RAYSERVICES, **{resource.kind: without(resource, *paths)})
    assert found.missing == paths
    assert f"the installed definition of {resource.kind}s lacks {paths[0]}" in found.problem


@pytest.mark.parametrize("rules", ["deletionStrategy", "deletionStrategy.deletionRules"])
def test_an_older_definition_without_deletion_rules_is_complete(rules: str):
    jobs, cron_jobs = (
        without(RAYJOBS, f"spec.{rules}"),
        without(RAYCRONJOBS, f"spec.jobTemplate.{rules}"),
    )
    assert read(RAYJOBS, RayJob=jobs).problem == ""
    assert read(RAYCRONJOBS, RayJob=jobs, RayCronJob=cron_jobs).problem == ""


def test_cached_objects_may_still_lack_what_a_definition_has_regained():
    now, before = without(RAYJOBS), without(RAYJOBS, "status.jobId")
    both = InstalledSchema(now.schema, previous=before.schema)
    assert read(RAYJOBS, RayJob=both).missing == ("status.jobId",)


@KINDS
def test_a_definition_that_preserves_everything_lacks_nothing(resource: Resource[Any]):
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = InstalledSchema(published(resource, anything))
    assert read(resource, **{resource.kind: schema}).problem == ""


@KINDS
def test_an_unreadable_definition_is_reported_and_one_that_nobody_reads_is_not(
    resource: Resource[Any],
):
    unreadable = read(resource, **{resource.kind: InstalledSchema(error="403")})
    assert f"of {resource.kind}s cannot be read (403)" in unreadable.problem
    assert read(resource).problem == ""


@KINDS
def test_an_edited_object_is_unverified_and_no_other_one(resource: Resource[Any]):
    schemas: Any = {resource.kind: InstalledSchema(error="connection refused")}
    assert not read(resource, **schemas).unverified
    edited = read(resource, "default/edited", **schemas)
    assert (edited.unverified, edited.unread) == (True, "connection refused")
