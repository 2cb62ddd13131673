"""Manifests of public reports as a whole: an operator of all kinds, and any API server.

They lie beside the project; each test says if its file is missing.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any, Final

import pytest
import yaml

from controller.apimachinery.conditions import find_condition
from controller.command.kinds import KindSettings, kinds_of
from controller.kube.errors import StatusError
from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, SERVICES, Resource
from controller.ray.dashboard import DashboardActors
from tests.integration.harness import cluster_of, is_ready, live, role
from tests.integration.rays import RAW_PODS, Rays, forever, submitter
from tests.ray.dashboard.simulated import Course
from tests.samples import CASES, case

pytestmark = pytest.mark.timeout(300)

Json = dict[str, Any]


class Raw(KubeObject, frozen=True):
    """An object of any kind as plain data."""

    spec: Any = None
    status: Any = None


def resource_of(manifest: Json) -> Resource[Raw]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind: str = manifest["kind"]
    return Resource(group, version, f"{kind.lower()}s", kind, Raw)


class Reports:
    """What users apply, and what they read of it.

    Args:
        rays: the world, with a simulated Ray for every head.
    """

    def __init__(self, rays: Rays) -> None:
        self.rays, self.world = rays, rays.world
        actors = DashboardActors(
            rays.ray.connect, clock=self.world.loop, wall=self.world.wall, rng=random.Random(1)
        )
        kinds = kinds_of(KindSettings.from_environment(None, {}), actors)
        self.world.start_operator(kinds=kinds)

    async def apply(self, *manifests: Json) -> None:
        """Create them as `kubectl apply` does, which has unknown fields refused."""
        for manifest in manifests:
            path = resource_of(manifest).path(self.world.namespace)
            await self.world.user.request_json(
                "POST", path, query={"fieldValidation": "Strict"}, body=manifest
            )

    async def edit(self, manifest: Json, patch: Json) -> None:
        name: str = manifest["metadata"]["name"]
        at = resource_of(manifest), self.world.namespace, name
        await self.world.user.merge_patch(*at, patch)

    async def get(self, manifest: Json) -> Raw:
        name: str = manifest["metadata"]["name"]
        return await self.world.user.get(resource_of(manifest), self.world.namespace, name)

    async def ready(self, manifest: Json) -> tuple[str, str, str]:
        """Status, reason and message of the condition `Ready`."""
        status: Json = (await self.get(manifest)).status or {}
        found = find_condition(status.get("conditions", ()), "Ready") or {}
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    async def says(self, manifest: Json, *words: str, seconds: float = 90) -> Json:
        """Wait until the status says all of these words; the status then."""

        async def told() -> bool:
            text = json.dumps((await self.get(manifest)).status, ensure_ascii=False)
            return all(word in text for word in words)

        try:
            await self.world.eventually(told, seconds=seconds, pause=0.5)
        except AssertionError:
            found = (await self.get(manifest)).status
            raise AssertionError(f"no {words} within {seconds} s: {found}") from None
        return (await self.get(manifest)).status

    async def reaches(self, manifest: Json, state: str, *, seconds: float = 90) -> Json:
        field = "jobDeploymentStatus" if manifest["kind"] == "RayJob" else "state"
        return await self.says(manifest, f'"{field}": "{state}"', seconds=seconds)

    async def notes(self, manifest: Json) -> str:
        name: str = manifest["metadata"]["name"]
        return str(await self.world.events_about(manifest["kind"], name))

    def pods(self, cluster: str) -> dict[str, Any]:
        present = self.world.journal.present.values()
        return {each.metadata.uid: each for each in present if cluster_of(each) == cluster}


@pytest.fixture
async def reports(rays: Rays) -> Reports:
    return Reports(rays)


def named(documents: list[Json], name: str) -> Json:
    return next(each for each in documents if each["metadata"]["name"] == name)


async def test_01_values_of_a_runtime_environment_reach_ray_as_they_are_meant(reports: Reports):
    http, by_job, _ = case("01-runtimeenv-scalar-typing.yaml")
    sent: list[Json] = []

    def course(body: Json) -> Course:
        sent.append(body.get("runtime_env", {}).get("env_vars", {}))
        return Course()

    reports.rays.ray.course = course
    await reports.apply(http, by_job)
    await reports.reaches(http, "Complete", seconds=120)
    await reports.reaches(by_job, "Complete", seconds=120)
    wanted = {
        "LR": "1E-5",
        "SHARD": "007",
        "FLAG": "true",
        "DAY": "2026-01-15",
        "CLOCK": "12:30:00",
        "MOTD": "first line\nsecond line",
    }
    assert any(wanted.items() <= each.items() for each in sent)


async def test_06_a_deadline_ends_the_job_on_a_shared_cluster_and_in_ray(reports: Reports):
    reports.rays.ray.course = lambda _body: forever()
    shared, job = case("06-deadline-on-shared-cluster.yaml")
    await reports.apply(shared, job)
    await reports.reaches(job, "Running")
    status = await reports.reaches(job, "Failed", seconds=60)
    assert status["reason"] == "DeadlineExceeded"
    await reports.says(job, '"jobStatus": "STOPPED"', seconds=60)
    assert (await reports.ready(shared))[0] == "True"


async def test_07_deletion_rules_with_a_hole_are_named_before_they_cost_anything(reports: Reports):
    reports.rays.ray.course = lambda _body: forever()
    leaky, unsubmitted, covered = case("07-deletion-rules-unmatched.yaml")
    await reports.apply(leaky, unsubmitted, covered)
    for manifest in (leaky, unsubmitted):
        status = await reports.reaches(manifest, "Failed", seconds=60)
        assert "jobDeploymentStatus Failed" in await reports.notes(manifest)
        assert status["reason"] == "DeadlineExceeded"
    assert "DeletionRulesIncomplete" not in await reports.notes(covered)
    await reports.reaches(covered, "Failed", seconds=60)

    async def only_covered_is_deleted() -> bool:
        left = [each.partition("-")[0] for each in await reports.rays.clusters()]
        return "covered" not in left and "leaky" in left

    await reports.world.eventually(only_covered_is_deleted, seconds=60, pause=0.5)


async def test_08_a_job_on_a_selected_cluster_is_suspended_and_resumed(reports: Reports):
    reports.rays.ray.course = lambda _body: forever()
    documents = case("08-clusterselector-suspend.yaml")
    waiting, kept, running, shared = documents
    await reports.apply(*documents)
    await reports.reaches(waiting, "Suspended")
    await reports.reaches(kept, "ValidationFailed")
    await reports.says(kept, "spec.shutdownAfterJobFinishes", "spec.deletionStrategy")
    await reports.says(running, '"jobStatus": "RUNNING"')
    await reports.edit(running, {"spec": {"suspend": True}})
    await reports.reaches(running, "Suspended")
    assert (await reports.ready(shared))[0] == "True"
    await reports.edit(running, {"spec": {"suspend": False}})
    await reports.says(running, '"jobStatus": "RUNNING"', '"jobDeploymentStatus": "Running"')


async def test_09_the_cleanup_of_redis_waits_behind_no_gate_of_the_head(reports: Reports):
    secret, gated = case("09-redis-cleanup-gated-or-suspended.yaml")
    await reports.apply(secret, gated)
    await reports.says(gated, "SchedulingGated")
    at = resource_of(gated), reports.world.namespace, "gated"
    await reports.world.user.delete(*at)

    async def is_gone() -> bool:
        found = await reports.world.user.list(resource_of(gated), reports.world.namespace)
        return not found.items

    await reports.world.eventually(is_gone, seconds=120, pause=0.5)
    assert "redis" in await reports.notes(gated)


async def test_10_a_cluster_that_somebody_else_suspends_is_the_cause_of_the_missed_deadline(
    reports: Reports,
):
    (job,) = case("10-child-cluster-suspended-by-webhook.yaml")
    del job["metadata"]["labels"]  # no queue admits it here
    await reports.apply(job)
    await reports.world.eventually(reports.rays.clusters, pause=0.1)
    (cluster,) = await reports.rays.clusters()
    child = {**job, "kind": "RayCluster", "metadata": {"name": cluster}}
    await reports.edit(child, {"spec": {"suspend": True}})
    await reports.says(job, f"spec.suspend of RayCluster {cluster} is true", "does not ask for")
    status = await reports.reaches(job, "Failed", seconds=180)
    assert status["reason"] == "PreRunningDeadlineExceeded"
    assert f"spec.suspend of RayCluster {cluster} is true" in status["message"]


async def test_11_what_a_service_is_labelled_later_reaches_its_cluster(reports: Reports):
    shop, nightly = case("11-propagated-labels-and-annotations.yaml")
    await reports.apply(shop, nightly)
    await reports.says(shop, "NonZeroServeEndpoints", seconds=120)
    await reports.reaches(nightly, "Complete", seconds=120)
    (cluster,) = [each for each in await reports.rays.clusters() if each.startswith("shop-")]
    before = set(reports.pods(cluster))
    await reports.edit(shop, {"metadata": {"labels": {"team": "payment"}}})

    async def is_labelled() -> bool:
        found = await reports.world.cluster(cluster)
        return (found.metadata.labels or {}).get("team") == "payment"

    await reports.world.eventually(is_labelled, seconds=60, pause=0.5)
    assert set(reports.pods(cluster)) == before


async def test_12_the_service_of_the_head_selects_it_after_an_edit_of_its_labels(reports: Reports):
    (manifest,) = case("12-head-service-selector-after-label-edit.yaml")
    await reports.apply(manifest)
    await reports.reaches(manifest, "ready", seconds=120)
    label = {"metadata": {"labels": {"app.kubernetes.io/name": "other"}}}
    await reports.edit(manifest, {"spec": {"headGroupSpec": {"template": label}}})
    await reports.world.settle(10)
    name = "converters-head-svc"
    found = await reports.world.user.get(SERVICES, reports.world.namespace, name)
    (head,) = [each for each in reports.pods("converters").values() if role(each) == "head"]
    assert (found.spec.selector or {}).items() <= (head.metadata.labels or {}).items()
    assert is_ready(head)
    assert (await reports.ready(manifest))[0] == "True"


@pytest.mark.parametrize(
    ("file", "name", "groups"),
    [
        ("16-rayservice-groups-reordered.yaml", "ordsvc", ("rayClusterConfig",)),
        ("16-worker-groups-reordered.yaml", "ordered", ()),
    ],
)
async def test_16_the_order_of_worker_groups_means_nothing(
    reports: Reports, file: str, name: str, groups: tuple[str, ...]
):
    manifest = named(case(file), name)
    await reports.apply(manifest)

    async def is_complete() -> bool:
        pods = reports.world.journal.present.values()
        return len([each for each in pods if is_ready(each)]) == 5

    await reports.world.eventually(is_complete, seconds=120, pause=0.5)
    await reports.world.settle(15)
    before = set(reports.world.journal.present)
    spec = copy.deepcopy(manifest["spec"])
    inner = spec
    for each in groups:
        inner = inner[each]
    inner["workerGroupSpecs"].reverse()
    await reports.edit(manifest, {"spec": spec})
    await reports.world.settle(20)
    assert set(reports.world.journal.present) == before
    assert len(await reports.rays.clusters()) == 1


async def test_19_a_job_ends_with_its_submitter_whatever_a_proxy_does(reports: Reports):
    (job,) = case("19-submitter-with-mesh-sidecar.yaml")
    template = job["spec"]["submitterPodTemplate"]
    template["metadata"]["annotations"] |= submitter()["metadata"]["annotations"]
    template["spec"]["containers"].append({"name": "istio-proxy", "image": "istio/proxyv2:1.24.0"})
    await reports.apply(job)
    await reports.reaches(job, "Complete", seconds=120)
    await reports.world.becomes(reports.rays.jobs_of_kubernetes, [], seconds=60, pause=0.5)


async def test_20_a_head_that_is_never_restarted_is_replaced_when_it_has_ended(reports: Reports):
    (manifest,) = case("20-injected-container-first.yaml")
    await reports.apply(manifest)
    await reports.reaches(manifest, "ready", seconds=120)
    (dead,) = [each for each in reports.pods("injected").values() if role(each) == "head"]
    end = {"terminated": {"exitCode": 1, "reason": "Error"}}
    ended = {"name": "ray-head", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
    status = {"phase": "Failed", "containerStatuses": [{**ended, "state": end}]}
    at = PODS, reports.world.namespace, dead.metadata.name
    await reports.world.user.merge_patch(*at, {"status": status}, subresource="status")

    def is_replaced() -> bool:
        heads = [each for each in reports.pods("injected").values() if role(each) == "head"]
        return [each.metadata.uid != dead.metadata.uid for each in heads if live(each)] == [True]

    await reports.world.eventually(is_replaced, seconds=120, pause=0.5)


@pytest.mark.real_only
async def test_23_what_a_limit_range_refuses_is_the_first_cause_until_it_is_sized(reports: Reports):
    floor, cluster, job = case("23-limitrange-vs-injected-containers.yaml")
    await reports.apply(floor, cluster, job)
    await reports.says(cluster, "LimitRangeViolated", "wait-gcs-ready")
    await reports.says(job, "LimitRangeViolated", "spec.submitterPodTemplate", seconds=120)
    enough = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    (workers,) = copy.deepcopy(cluster["spec"]["workerGroupSpecs"])
    ours = {"name": "wait-gcs-ready", "resources": enough}
    workers["template"]["spec"]["initContainers"] = [ours]
    await reports.edit(cluster, {"spec": {"workerGroupSpecs": [workers]}})
    await reports.says(cluster, "AllPodsReady", '"state": "ready"', seconds=120)


async def test_24_no_path_is_mounted_twice_and_no_volume_of_a_user_is_taken(reports: Reports):
    (manifest,) = case("24-plasma-dir-and-user-shm.yaml")
    await reports.apply(manifest)

    async def is_complete() -> bool:
        return len(reports.pods("shm")) == 6

    await reports.world.eventually(is_complete, seconds=60, pause=0.5)
    found = await reports.world.user.list(RAW_PODS, reports.world.namespace)
    for pod in found.items:
        (ray,) = [each for each in pod.spec["containers"] if each["name"] in {"ray-head", "w"}]
        paths = [each["mountPath"].rstrip("/") for each in ray["volumeMounts"]]
        assert len(paths) == len(set(paths)), (pod.metadata.name, paths)
        claims = [each["name"] for each in pod.spec["volumes"] if "persistentVolumeClaim" in each]
        mounts = [each["mountPath"] for each in ray["volumeMounts"] if each["name"] in claims]
        assert mounts == ["/data"][: len(claims)]


WRONG: Final = {
    "01-misspelt-replicas.yaml": "replcias",
    "02-string-replicas.yaml": "must be of type integer",
    "04-negative-replicas.yaml": "must not be negative",
    "05-long-name.yaml": "at most 53",
    "06-unknown-raystartparam.yaml": "did you mean num-cpus?",
    "08-duplicate-groups.yaml": "Duplicate value",
    "09-missing-template.yaml": "template: Required value",
    "11-wrong-namespace.yaml": "namespace",
    "12-no-entrypoint.yaml": "entrypoint must be set",
    "13-bad-cron.yaml": "minute (0-59)",
    "14-bad-runtimeenv.yaml": "spec.runtimeEnvYAML: is not YAML",
    "15-bad-serveconfig.yaml": "import_path",
    "16-serveconfig-not-yaml.yaml": "spec.serveConfigV2: is not YAML",
    "17-no-containers.yaml": "needs at least one container",
    "18-min-over-max.yaml": "minReplicas is larger than maxReplicas",
    "20-bad-quantity.yaml": "'1 core' is not a quantity",
    "21-misspelt-spec-field.yaml": "enableInTreeAutoscalling",
    "22-misspelt-image.yaml": "did you mean image?",
    "23-bad-upgrade.yaml": "Unsupported value",
    "24-uppercase-name.yaml": "RFC 1123",
    "25-bad-runtimeenv-key.yaml": "did you mean pip?",
    "26-bool-param.yaml": "must be of type string",
    "28-ttl-no-shutdown.yaml": "needs shutdownAfterJobFinishes to be true",
    "29-bad-mode.yaml": "K8sJobMode, HTTPMode, InteractiveMode, SidecarMode",
    "30-selector-and-cluster.yaml": "backoffLimit must be 0 with clusterSelector",
    "31-no-group-name.yaml": "groupName: Required value",
    "32-group-name-upper.yaml": "groupName in body should match",
    "34-cron-tz.yaml": "'Europe/Berln' is not a time zone",
}
"""What is said of a wrong manifest; others are no YAML, of no known kind, or served as they are."""


async def test_what_is_wrong_with_a_manifest_is_said_by_the_api_server_or_in_its_status(
    reports: Reports,
):
    if not CASES.is_dir():
        pytest.skip(f"{CASES} is missing: the manifests of field reports are not part of Manta")
    accepted: dict[str, Json] = {}
    untold: dict[str, str] = {}
    for file, words in WRONG.items():
        manifest = yaml.load((CASES / "wrong" / file).read_text(), Loader=yaml.CSafeLoader)
        try:
            await reports.apply(manifest)
        except StatusError as refusal:
            if words not in str(refusal):
                untold[file] = str(refusal)
        else:
            accepted[file] = manifest
    for file, manifest in accepted.items():
        try:
            await reports.says(manifest, WRONG[file], seconds=60)
        except AssertionError as error:
            untold[file] = str(error)
    assert untold == {}
