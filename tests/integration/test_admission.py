"""What the definitions refuse by their rules, and what they must not: on both kinds of server."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.command.kinds import KindSettings, kinds_of
from controller.kube.errors import NotFound
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, FeatureGates
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.integration.definitions import answer_to, restore_rules
from tests.integration.harness import World, example_cluster
from tests.integration.rays import Rays, job_manifest
from tests.integration.rayservices import service_manifest
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.vital, pytest.mark.timeout(180)]

Json = dict[str, Any]


def cluster(*, name: str = "example", **group: Any) -> Json:
    manifest = example_cluster(name)
    manifest["spec"]["workerGroupSpecs"][0] |= group
    return manifest


def job(**spec: Any) -> Json:
    return job_manifest("example", **spec)


def cron(**spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "example"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": job()["spec"]} | spec,
    }


def named(manifest: Json, name: str) -> Json:
    return manifest | {"metadata": {"name": name}}


def headless() -> Json:
    manifest = cluster()
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"] = []
    return manifest


IDLE = {"autoscalerOptions": {"version": "v2", "idleTimeoutSeconds": -1}}
ON_EXISTING = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "mine"}}
MANUAL = {"submissionMode": "InteractiveMode", "entrypoint": None}
GROUP = "spec.workerGroupSpecs[0]"
REFUSED: list[tuple[Resource[Any], Json, str]] = [
    (RAYCLUSTERS, cluster(minReplicas=3, maxReplicas=2), f"{GROUP}: Invalid value: minReplicas"),
    (RAYCLUSTERS, cluster(minReplicas=-1), f"{GROUP}.minReplicas: Invalid value: -1: must not be"),
    (RAYCLUSTERS, cluster(maxReplicas=-1), f"{GROUP}.maxReplicas: Invalid value: -1: must not be"),
    (RAYCLUSTERS, cluster(replicas=-1), f"{GROUP}.replicas: Invalid value: -1: must not be"),
    (RAYCLUSTERS, cluster(groupName="GPU_workers"), f"{GROUP}.groupName"),
    (RAYCLUSTERS, cluster(groupName="g" * 64), f"{GROUP}.groupName"),
    (RAYCLUSTERS, cluster(template={"spec": {}}), f"{GROUP}.template: Invalid value: spec.contain"),
    (RAYCLUSTERS, headless(), "spec.headGroupSpec.template: Invalid value: spec.containers needs"),
    (RAYCLUSTERS, cluster() | {"spec": cluster()["spec"] | IDLE}, "idleTimeoutSeconds: Invalid"),
    (RAYCLUSTERS, cluster(name="c" * 54), "metadata.name: Invalid value: "),
    (RAYCLUSTERS, cluster(name="1st"), "must consist of lower-case letters, digits and dashes"),
    (RAYCLUSTERS, cluster(name="a.b"), "create the cluster under another name"),
    (RAYJOBS, named(job(), "j" * 48), "at most 47 characters, which leave"),
    (RAYJOBS, job(entrypoint=None), "spec: Invalid value: entrypoint must be set"),
    (RAYJOBS, job(entrypoint=""), "spec: Invalid value: entrypoint must be set"),
    (RAYJOBS, job(submissionMode="Interactive"), "must be one of K8sJobMode, HTTPMode, Interact"),
    (RAYJOBS, job(ttlSecondsAfterFinished=10), "ttlSecondsAfterFinished needs shutdownAfterJob"),
    (RAYJOBS, job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished: Invalid value: -1"),
    (RAYJOBS, job(backoffLimit=-1), "spec.backoffLimit: Invalid value: -1: must not be negative"),
    (RAYJOBS, job(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds: Invalid value: 0"),
    (RAYJOBS, job(rayClusterSpec=None), "rayClusterSpec must be set, to create a cluster, or"),
    (RAYJOBS, job(**ON_EXISTING, backoffLimit=1), "backoffLimit must be 0 with clusterSelector"),
    (RAYJOBS, job(**MANUAL, backoffLimit=1), "backoffLimit must be 0 with submissionMode Interac"),
    (
        RAYJOBS,
        job(submissionMode="SidecarMode", submitterConfig={"backoffLimit": 1}),
        "SidecarMode cannot be used with clusterSelector, submitterPodTemplate or submitterConfig",
    ),
    (
        RAYJOBS,
        job(rayClusterSpec=cluster(minReplicas=3, maxReplicas=2)["spec"]),
        "spec.rayClusterSpec.workerGroupSpecs[0]: Invalid value: minReplicas is larger",
    ),
    (RAYCRONJOBS, cron(schedule="61 * * * *"), "spec.schedule: Invalid value: "),
    (RAYCRONJOBS, cron(schedule="0 3 * *"), "must be five fields: minute (0-59), hour (0-23)"),
    (RAYCRONJOBS, cron(schedule="TZ=UTC 0 3 * * *"), "must not name a time zone; say it in spec."),
    (RAYCRONJOBS, cron(jobTemplate=job(entrypoint=None)["spec"]), "spec.jobTemplate: Invalid val"),
    (RAYCRONJOBS, named(cron(), "c" * 37), "at most 36 characters, which leave"),
    (
        RAYSERVICES,
        service_manifest("example", upgradeStrategy={"type": "RollingUpdate"}),
        "must be one of NewCluster, NewClusterWithIncrementalUpgrade, None",
    ),
    (RAYSERVICES, service_manifest("s" * 48), "at most 47 characters, which leave"),
]
"""Objects, and words of the API server's answer."""

COMMAND = {"spec": {"containers": [{"name": "submit", "image": "ray", "command": ["submit"]}]}}
RUN_BY_KUBERAY: list[tuple[Resource[Any], Json]] = [
    (RAYCLUSTERS, cluster(replicas=50, maxReplicas=10)),
    (RAYCLUSTERS, cluster(replicas=0, minReplicas=1)),
    (RAYCLUSTERS, cluster(groupName="GPU.workers-1")),
    (RAYCLUSTERS, cluster(name="c" * 53)),
    (RAYJOBS, job(**MANUAL)),
    (RAYJOBS, job(submissionMode="K8sJobMode", entrypoint=None, submitterPodTemplate=COMMAND)),
    (RAYJOBS, job(clusterSelector={"ray.io/cluster": "mine"})),  # beside rayClusterSpec
    (RAYJOBS, job(clusterSelector={})),
    (RAYJOBS, job(ttlSecondsAfterFinished=10, shutdownAfterJobFinishes=True)),
    (RAYJOBS, named(job(), "j" * 47)),
    (RAYCRONJOBS, cron(schedule=" */5,3 0-23/2 ? JAN-mar,12 sun-5 ")),
    (RAYCRONJOBS, cron(schedule="@every 1h30m")),
    (RAYCRONJOBS, cron(timeZone="Asia/Taipei")),
    (RAYSERVICES, service_manifest("example", upgradeStrategy={"type": "None"})),
]
"""Objects that an earlier definition stores and an operator runs."""


async def test_what_no_operator_runs_is_refused_with_the_field_and_a_remedy(world: World):
    for resource, manifest, words in REFUSED:
        answer = await answer_to(world, resource, manifest)
        assert words in answer, (manifest, answer)


async def test_what_kuberay_runs_is_stored(world: World):
    for resource, manifest in RUN_BY_KUBERAY:
        assert await answer_to(world, resource, manifest) == "", manifest


STORED = {
    "groups": (RAYCLUSTERS, cluster(name="groups", minReplicas=3, maxReplicas=2)),
    "null": (RAYCLUSTERS, cluster(name="null", template={"spec": {"containers": None}})),
    "c" * 54: (RAYCLUSTERS, cluster(name="c" * 54)),
    "entry": (RAYJOBS, named(job(entrypoint=None), "entry")),
    "mode": (RAYJOBS, named(job(submissionMode="Pigeon"), "mode")),
    "cron": (RAYCRONJOBS, named(cron(schedule="61 * * * *"), "cron")),
    "upgrade": (RAYSERVICES, service_manifest("upgrade", upgradeStrategy={"type": "Rolling"})),
}


async def test_stored_objects_that_a_rule_refuses_keep_their_status_and_can_be_deleted(lax: World):
    for resource, manifest in STORED.values():
        await lax.user.create(resource, lax.namespace, manifest)
    await restore_rules(lax)
    gates = FeatureGates({"RayClusterFleet": True})
    lax.start_operator(kinds=kinds_of(KindSettings.from_environment(gates, {}), None))
    for name, (resource, _) in STORED.items():

        async def is_told(name: str = name, resource: Resource[Any] = resource) -> bool:
            obj = await lax.user.get(resource, lax.namespace, name)
            ready = find_condition(obj.status.get("conditions") or (), "Ready") or {}
            return bool(ready.get("message"))

        await lax.eventually(is_told)
        held = {"metadata": {"finalizers": ["tests/held"], "labels": {"edited": "yes"}}}
        await lax.user.merge_patch(resource, lax.namespace, name, held)
        await lax.user.delete(resource, lax.namespace, name)
        await lax.user.merge_patch(resource, lax.namespace, name, {"metadata": {"finalizers": []}})

        async def is_gone(name: str = name, resource: Resource[Any] = resource) -> bool:
            try:
                await lax.user.get(resource, lax.namespace, name)
            except NotFound:
                return True
            return False

        await lax.eventually(is_gone)


async def test_a_running_job_with_a_refused_edit_ends_loses_its_finalizer_and_takes_a_correction(
    lax: World,
):
    rays = Rays(lax)
    await rays.open()
    rays.ray.course = lambda _body: Course(running=20)
    rays.start_operator()
    await rays.create(shutdownAfterJobFinishes=True)
    await rays.reaches("Running", seconds=120)
    await lax.becomes(rays.status, lambda found: found.get("jobStatus") == "RUNNING")

    await rays.patch(entrypoint="")
    await restore_rules(lax)
    await rays.reaches("Complete", seconds=120)
    assert (await rays.job()).metadata.finalizers
    await rays.patch(rayClusterSpec={"rayVersion": "2.60.0"}, entrypoint="python job.py")
    await lax.user.delete(RAYJOBS, lax.namespace, "job")
    await lax.eventually(rays.is_gone)
