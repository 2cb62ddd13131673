"""A field that the API server does not know is named, where it would be dropped without a word."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.command.kinds import KindSettings, kinds_of
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, FeatureGates
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import World, example_cluster
from tests.integration.rays import job_manifest, submitter
from tests.integration.rayservices import service_manifest


class Event(KubeObject, frozen=True):
    reason: str = ""
    note: str = ""


EVENTS = Resource("events.k8s.io", "v1", "events", "Event", Event)


def spoiled() -> dict[str, Any]:
    """A RayCluster with a typing error in its second container, and one that resembles nothing."""
    manifest = example_cluster()
    spec = manifest["spec"]["headGroupSpec"]["template"]["spec"]
    spec["nodeSelektor"] = {"disk": "ssd"}
    spec["containers"][0]["zzz"] = 1
    manifest["spec"]["headGroupSpec"]["rayStartParams"] = {"num-cpu": "1"}
    return manifest


def job() -> dict[str, Any]:
    template = copy.deepcopy(submitter())
    template["metadata"]["label"] = {"a": "b"}
    return job_manifest(
        "example",
        runtimeEnvYAML="pips: [x]",
        submissionMode="K8sJobMode",
        rayClusterSpec=spoiled()["spec"],
        submitterPodTemplate=template,
    )


def cron_job() -> dict[str, Any]:
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": job()["spec"]}
    metadata = {"name": "example"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": metadata, "spec": spec}


def service() -> dict[str, Any]:
    return service_manifest("example", rayClusterConfig=spoiled()["spec"])


def fleet() -> dict[str, Any]:
    spec = {"replicas": 1, "template": {"spec": spoiled()["spec"]}}
    return fleet_manifest("example") | {"spec": spec}


HEAD = "headGroupSpec.template.spec"
PARAMETER = "headGroupSpec.rayStartParams[num-cpu] (did you mean num-cpus?)"
IN_CLUSTER = [
    f"spec.{PARAMETER}",
    f"spec.{HEAD}.containers[0].zzz",
    f"spec.{HEAD}.nodeSelektor (did you mean nodeSelector?)",
]
IN_JOB = [
    f"spec.rayClusterSpec.{PARAMETER}",
    "spec.runtimeEnvYAML.pips (did you mean pip?)",
    "spec.submitterPodTemplate.metadata.label (did you mean labels?)",
    f"spec.rayClusterSpec.{HEAD}.nodeSelektor (did you mean nodeSelector?)",
]
IN_CRON_JOB = [
    "spec.jobTemplate.submitterPodTemplate.metadata.label (did you mean labels?)",
    f"spec.jobTemplate.rayClusterSpec.{HEAD}.nodeSelektor (did you mean nodeSelector?)",
]
IN_SERVICE = [f"spec.rayClusterConfig.{HEAD}.nodeSelektor (did you mean nodeSelector?)"]

IN_FLEET = [f"spec.template.spec.{HEAD}.nodeSelektor (did you mean nodeSelector?)"]


@pytest.mark.parametrize(
    ("resource", "manifest", "named"),
    [
        pytest.param(RAYCLUSTERS, spoiled, IN_CLUSTER, id="RayCluster"),
        pytest.param(RAYJOBS, job, IN_JOB, id="RayJob"),
        pytest.param(RAYCRONJOBS, cron_job, IN_CRON_JOB, id="RayCronJob"),
        pytest.param(RAYSERVICES, service, IN_SERVICE, id="RayService"),
        pytest.param(RAYCLUSTERFLEETS, fleet, IN_FLEET, id="RayClusterFleet"),
    ],
)
async def test_an_unknown_field_is_named_with_its_path_and_the_nearest_name(
    world: World, resource: Resource[Any], manifest: Callable[[], dict[str, Any]], named: list[str]
):
    gates = FeatureGates({"RayClusterFleet": True})
    world.start_operator(kinds=kinds_of(KindSettings.from_environment(gates, {}), None))
    await world.user.create(resource, world.namespace, manifest())

    async def reported() -> Any:
        obj = await world.user.get(resource, world.namespace, "example")
        return find_condition(obj.status.get("conditions") or (), "FieldsKnown")

    found = await world.eventually(reported)
    assert (found["status"], found["reason"]) == ("False", "UnknownFields")
    for field in named:
        assert field in found["message"]

    async def notes() -> list[str]:
        events = (await world.user.list(EVENTS, world.namespace)).items
        return [each.note for each in events if each.reason == "UnknownFields"]

    await world.eventually(notes)
    reported_notes = " ".join(await notes())
    assert all(field in reported_notes for field in named)


async def test_the_object_is_served_and_a_correction_removes_the_condition(world: World):
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, spoiled())
    await world.eventually(world.is_ready)
    patch = {"spec": example_cluster()["spec"]}
    patch["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelektor"] = None
    patch["spec"]["headGroupSpec"]["rayStartParams"] = None
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", patch)
    await world.becomes(lambda: world.condition("FieldsKnown"), lambda found: not found["status"])
    assert world.journal.marked == set()
