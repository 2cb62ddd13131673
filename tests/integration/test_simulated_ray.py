"""On plain `manta dev` every manifest comes to the end that it would with real pods.

The examples of ours and KubeRay's samples, on an API server with simulated pods as `manta dev` has
it, each within a minute of virtual time.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.apimachinery.conditions import find_condition
from controller.command.development.embedded_cluster import (
    node_shapes,
    simulated_gateways,
    simulated_kubelet,
)
from controller.command.kinds import KindSettings, kinds_of
from controller.kube.errors import AlreadyExists
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, RAYJOBS, FeatureGates
from controller.ray.api.names import SUBMITTER
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.dashboard.client import Connector
from controller.testing.cluster import embedded_server, virtual_wall
from devcluster.apiserver.authentication import TokenIssuer
from devcluster.gateway import gateway_api_definitions
from devcluster.nodes import NodeSettings, run_nodes
from devcluster.nodes.workloads import StatefulSetController
from tests.integration.cert_manager import install_cert_manager
from tests.integration.harness import EXAMPLES, World, example_cluster, install_crds, role
from tests.integration.rays import job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.test_samples import NEEDS_MORE_THAN_CORE, collection, served_by
from tests.samples import SAMPLES, THEIR_CRDS

Json = dict[str, Any]

MINUTE = 60.0
OTHER_FEATURES = {"inferenceset.yaml", "workspace.yaml"}
"""Examples that need `manta dev --workspaces`."""

FOREIGN_CLUSTER = "ray-cluster-kuberay"
"""What a sample selects by its labels, and no sample makes."""

MADE_BEFORE = {
    "raycluster-history.yaml": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "history-storage"},
        "stringData": {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"},
    }
}
"""What the comment of an example tells its user to create first."""


def files() -> list[Any]:
    """Our examples, and KubeRay's samples, which take longer together than a quick run may."""
    examples = [each for each in EXAMPLES.glob("*.yaml") if each.name not in OTHER_FEATURES]
    samples = [
        pytest.param(each, id=f"samples/{each.name}", marks=pytest.mark.slow)
        for each in sorted(SAMPLES.glob("*.yaml"))
    ]
    return [pytest.param(each, id=f"examples/{each.name}") for each in sorted(examples)] + samples


@asynccontextmanager
async def manta_dev(*nodes: str) -> AsyncIterator[World]:
    """What `manta dev --nodes NODES` runs, in virtual time and without a socket."""
    async with embedded_server() as server:
        server.hooks.tokens = TokenIssuer(server.store, virtual_wall)
        world = World(server, namespace="default", server=server, wall=virtual_wall)
        await install_crds(world, *gateway_api_definitions())
        await install_cert_manager(world)
        async with run_nodes(
            world.client("manta-nodes"),
            clock=world.loop,
            wall=world.wall,
            rng=random.Random(1),
            settings=NodeSettings(scheduling=True, shapes=node_shapes(nodes)),
            kubelet=simulated_kubelet(server, world.wall),
            others=[StatefulSetController, simulated_gateways],
        ):
            dashboards = DashboardActors(
                Connector(world.client("manta-operator"), proxied=True),
                clock=world.loop,
                wall=world.wall,
                rng=random.Random(1),
            )
            gates = FeatureGates.parse("RayClusterFleet=true,RayClusterMTLS=true")
            world.start_operator(
                kinds=kinds_of(KindSettings.from_environment(gates, {}), dashboards)
            )
            try:
                yield world
            finally:
                await world.kill_operators()
                await dashboards.aclose()


def test_there_are_samples():
    if not SAMPLES.is_dir():
        pytest.skip("SKIP: no samples beside the project; only our examples are tried")


@pytest.mark.parametrize("file", files())
async def test_a_manifest_comes_to_its_end(file: Path):
    async with manta_dev() as world:
        await all_come_to_their_end(world, file)


@pytest.mark.slow
@pytest.mark.skipif(not THEIR_CRDS.is_dir(), reason="SKIP: KubeRay's definitions are not there")
@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.yaml")), ids=lambda file: file.name)
async def test_a_sample_comes_to_its_end_with_kuberays_definitions(file: Path):
    plurals = "rayclusters", "rayjobs", "rayservices", "raycronjobs"
    async with manta_dev() as world, served_by(world, "theirs", *plurals):
        await all_come_to_their_end(world, file)


async def all_come_to_their_end(world: World, file: Path) -> None:
    applied = documents(file)
    if file.name in MADE_BEFORE:
        await apply(world, MADE_BEFORE[file.name])
    for document in applied:
        await apply(world, document)
    for document in applied:
        if document["kind"].startswith("Ray"):
            await comes_to_its_end(world, file, document)


MODES = ["K8sJobMode", "HTTPMode", "SidecarMode"]
ENDS = {"shutdownAfterJobFinishes": True}


@pytest.mark.parametrize("mode", MODES)
async def test_a_job_fails_when_and_how_often_its_annotation_says(mode: str):
    async with manta_dev() as world:
        job = manifest(mode, "FAILED after=3s, SUCCEEDED", backoffLimit=1)
        await world.user.create(RAYJOBS, world.namespace, job)
        path = RAYJOBS.path(world.namespace, "job")
        status = await until(world, path, lambda s: s.get("jobDeploymentStatus") == "Complete")
        assert (status["failed"], status["succeeded"]) == (1, 1)
        assert "annotation sim.manta.dev/job asks" in str(status["attempts"])


@pytest.mark.parametrize("mode", MODES)
async def test_the_submitter_ends_with_its_job(mode: str):
    async with manta_dev() as world:
        await world.user.create(RAYJOBS, world.namespace, manifest(mode, "SUCCEEDED after=7"))
        path = RAYJOBS.path(world.namespace, "job")
        await until(world, path, lambda s: s.get("jobStatus") == "RUNNING")
        assert not await ended_submitters(world)
        await until(world, path, lambda s: s.get("jobDeploymentStatus") == "Complete")
        expected = {"K8sJobMode": [0], "HTTPMode": [], "SidecarMode": [0]}[mode]
        assert await ended_submitters(world) == expected
        for job in (await world.user.list(JOBS, world.namespace)).items:
            job_path = JOBS.path(world.namespace, job.metadata.name)
            await until(world, job_path, lambda s: condition(s, "Complete", "True"))


async def test_an_annotation_that_cannot_be_read_says_so_on_the_job():
    async with manta_dev() as world:
        await world.user.create(RAYJOBS, world.namespace, manifest("HTTPMode", "SUCEEDED"))
        path = RAYJOBS.path(world.namespace, "job")
        status = await until(world, path, lambda s: s.get("jobDeploymentStatus") == "Failed")
        assert "sim.manta.dev/job: 'SUCEEDED' is not RESULT [after=SECONDS]" in status["message"]


async def test_a_job_that_runs_for_ever_can_be_suspended():
    async with manta_dev() as world:
        await world.user.create(RAYJOBS, world.namespace, manifest("K8sJobMode", "RUNNING", **ENDS))
        path = RAYJOBS.path(world.namespace, "job")
        await until(world, path, lambda s: s.get("jobStatus") == "RUNNING")
        await world.settle(300)
        await world.user.merge_patch(RAYJOBS, world.namespace, "job", {"spec": {"suspend": True}})
        await until(world, path, lambda s: s.get("jobDeploymentStatus") == "Suspended")


async def test_a_rolling_update_drains_simulated_nodes_and_ends():
    async with manta_dev() as world:
        cluster, code = documents(EXAMPLES / "rolling.yaml")
        await apply(world, code)
        await apply(world, cluster)
        path = RAYCLUSTERS.path(world.namespace, "rolling")
        await until(world, path, lambda s: condition(s, "Ready", "True"))
        for group in cluster["spec"]["workerGroupSpecs"]:
            group["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:new"
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, "rolling", cluster)

        async def replaced() -> bool:
            pods = (await world.user.list(PODS, world.namespace)).items
            workers = [each for each in pods if role(each) == "worker"]
            return all(each.spec.containers[0].image == "rayproject/ray:new" for each in workers)

        await world.eventually(replaced, seconds=5 * MINUTE)
        await until(world, path, lambda s: condition(s, "Ready", "True"))


async def test_a_manifest_for_nodes_that_are_not_there_says_so():
    async with manta_dev("cpu") as world:
        for document in documents(EXAMPLES / "raycluster-autoscaler.yaml"):
            await apply(world, document)
        [cluster] = (await world.user.list(RAYCLUSTERS, world.namespace)).items
        path = RAYCLUSTERS.path(world.namespace, cluster.metadata.name)
        status = await until(world, path, lambda s: "0/3 nodes" in str(s.get("conditions")))
        message = find_condition(status["conditions"], "Ready")["message"]
        assert "3 node(s) didn't match Pod's node affinity/selector" in message


async def test_a_ray_can_be_told_not_to_answer():
    async with manta_dev() as world:
        job = manifest("HTTPMode", "SUCCEEDED")
        head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
        head["metadata"] = {"annotations": {"sim.manta.dev/ray": "silent"}}
        await apply(world, job)
        path = RAYJOBS.path(world.namespace, "job")
        status = await until(world, path, lambda s: condition(s, "DashboardReachable", "False"))
        assert status["rayClusterStatus"]["state"] == "ready"


async def test_serve_answers_at_the_port_that_its_pods_name():
    service = service_manifest()
    cluster = service["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        container = group["template"]["spec"]["containers"][0]
        container["ports"] = [{"name": "serve", "containerPort": 9000}]
    async with manta_dev() as world:
        await apply(world, service)
        path = f"{collection(world, service)}/svc"
        await until(world, path, lambda s: condition(s, "Ready", "True"))


BROKEN = {
    "resources": ({"cpu": "900"}, "0/9 nodes are available: 9 Insufficient cpu"),
    "env": (
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
        'secret "redis" not found',
    ),
    "envFrom": ({"configMapRef": {"name": "settings"}}, 'configmap "settings" not found'),
}


@pytest.mark.parametrize("field", BROKEN)
async def test_what_no_cluster_would_run_is_not_run_here(field: str):
    value, cause = BROKEN[field]
    cluster = example_cluster(replicas=1)
    container = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    container[field] = {"requests": value} if field == "resources" else [value]
    async with manta_dev() as world:
        await apply(world, cluster)
        path = RAYCLUSTERS.path(world.namespace, "example")
        status = await until(world, path, lambda s: cause in str(s.get("conditions")))
        assert condition(status, "Ready", "False")
        if field == "envFrom":
            settings = {"metadata": {"name": "settings"}, "data": {"A": "1"}}
            await apply(world, {"apiVersion": "v1", "kind": "ConfigMap", **settings})
            await until(world, path, lambda s: condition(s, "Ready", "True"))


async def test_a_volume_and_an_account_that_are_missing_are_named_as_by_a_kubelet():
    cluster = example_cluster(replicas=1)
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    head["volumes"] = [{"name": "code", "configMap": {"name": "code"}}]
    workers = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    workers["serviceAccountName"] = "robot"
    async with manta_dev() as world:
        await apply(world, cluster)
        path = RAYCLUSTERS.path(world.namespace, "example")
        refused = "error looking up service account default/robot"
        await until(world, path, lambda s: refused in str(s.get("conditions")))
        await world.settle(5)
        [pod] = (await world.user.list(PODS, world.namespace)).items
        [(_, note)] = [
            event
            for event in await world.events_about("Pod", pod.metadata.name)
            if event[0] == "FailedMount"
        ]
        assert note == 'MountVolume.SetUp failed for volume "code" : configmap "code" not found'
        assert pod.status.phase == "Pending"


def documents(file: Path) -> list[Json]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each]


def manifest(mode: str, course: str, **spec: Any) -> Json:
    job = job_manifest(submissionMode=mode, submitterPodTemplate=None, **spec)
    job["metadata"]["annotations"] = {"sim.manta.dev/job": course}
    return job


async def ended_submitters(world: World) -> list[int]:
    """Exit codes of the submitters that have ended."""
    pods = await world.user.request_json("GET", PODS.path(world.namespace))
    return [
        state["exitCode"]
        for pod in pods["items"]
        for status in pod["status"].get("containerStatuses", ())
        if status["name"] == SUBMITTER and (state := status["state"].get("terminated"))
    ]


async def comes_to_its_end(world: World, file: Path, document: Json) -> None:
    path = f"{collection(world, document)}/{document['metadata']['name']}"
    match document["kind"]:
        case "RayJob":
            await play_the_user(world, document)
            status = await until(world, path, lambda s: s.get("jobDeploymentStatus") == "Complete")
            assert status["succeeded"] == 1
            assert status["failed"] == ("examples/rayjob.yaml" in str(file))  # on purpose, once
        case "RayCronJob":
            name, every_minute = document["metadata"]["name"], {"spec": {"schedule": "* * * * *"}}
            await world.user.merge_patch(RAYCRONJOBS, world.namespace, name, every_minute)
            await until(world, path, lambda status: "lastScheduleTime" in status)
            [job] = (await world.user.list(RAYJOBS, world.namespace)).items
            made = RAYJOBS.path(world.namespace, job.metadata.name)
            await until(world, made, lambda s: s.get("jobDeploymentStatus") == "Complete")
        case _:
            await until(world, path, lambda status: condition(status, "Ready", "True"))


async def play_the_user(world: World, job: Json) -> None:
    """Do what the mode of a job leaves to its user."""
    name, spec = job["metadata"]["name"], job["spec"]
    if spec.get("clusterSelector"):
        await world.user.create(RAYCLUSTERS, world.namespace, example_cluster(FOREIGN_CLUSTER))
    if spec.get("submissionMode") == "InteractiveMode":
        path = RAYJOBS.path(world.namespace, name)
        status = await until(world, path, lambda s: s.get("jobDeploymentStatus") == "Waiting")
        head = f"{status['rayClusterName']}-head-svc:8265"
        answer = await world.user.proxy(
            SERVICES,
            world.namespace,
            head,
            "POST",
            "/api/jobs/",
            query={},
            headers={"content-type": "application/json"},
            body=b'{"entrypoint": "python by_hand.py", "submission_id": "by-hand"}',
            timeout=5,
            limit=10_000,
        )
        assert answer.status == 200
        await world.user.merge_patch(RAYJOBS, world.namespace, name, {"spec": {"jobId": "by-hand"}})


async def apply(world: World, document: Json) -> None:
    if document["apiVersion"].partition("/")[0] in NEEDS_MORE_THAN_CORE:
        return
    meta = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    if "generateName" in meta:
        meta["name"] = document["metadata"]["name"] = meta.pop("generateName") + "x"
    try:
        path = collection(world, document)
        await world.user.request_json("POST", path, body=document | {"metadata": meta})
    except AlreadyExists:
        assert not document["kind"].startswith("Ray")


async def until(world: World, path: str, reached: Any, seconds: float = MINUTE) -> Json:
    """Wait until the status of an object is as it should be; the status then."""
    status: Json = {}

    async def is_reached() -> bool:
        nonlocal status
        found = await world.user.request_json("GET", path)
        status = found.get("status", {})
        return bool(reached(status))

    try:
        await world.eventually(is_reached, seconds=seconds, pause=0.5)
    except AssertionError:
        raise AssertionError(f"{path} within {seconds} s: {status}") from None
    return status


def condition(status: Json, kind: str, wanted: str) -> bool:
    found = find_condition(status.get("conditions", ()), kind)
    return found is not None and found["status"] == wanted
