"""KubeRay's manifests of RayJobs and RayCronJobs, unchanged: each reaches the state it should.

With Manta's CRDs and with KubeRay's, on either API server. `MANTA_SAMPLES` names another folder of
them: a file that has no row in the table below is taken for an ordinary job that completes.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from enum import Enum
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import find_condition
from controller.command.kinds import kinds_of
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import AlreadyExists
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RayJob
from controller.ray.dashboard.actors import DashboardActors
from tests.integration.harness import (
    REAL_KUBECONFIG,
    World,
    embedded_world,
    example_cluster,
    real_world,
)
from tests.integration.rays import Rays
from tests.integration.test_samples import NEEDS_MORE_THAN_CORE, all_features, collection, served_by
from tests.ray.dashboard.simulated import Course
from tests.samples import NAMED, SAMPLES, THEIR_CRDS, documents

PATIENCE = 240.0
"""Seconds for one step of a job, on a real API server that is shared with all the others."""

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not SAMPLES.is_dir() or not THEIR_CRDS.is_dir(),
        reason="SKIP: no samples beside the project; users' jobs not tried",
    ),
]

Json = dict[str, Any]


class After(Enum):
    """What becomes of a job that is complete, without anybody doing anything."""

    STAYS = "job and cluster stay"
    CLUSTER_GOES = "the cluster goes, the job stays"
    ALL_GOES = "first the workers go, then the cluster, then the job"


class Fate(Struct, frozen=True):
    """What is to become of the job of a manifest.

    Attributes:
        first: the state in which it waits for its user; empty if it waits for nobody.
        mode: how it is submitted.
        after: what follows `Complete`, which all of them reach in the end.
        front: name of the head service of its cluster, if the manifest chooses it.
    """

    first: str = ""
    mode: str = "K8sJobMode"
    after: After = After.STAYS
    front: str = ""


FATES = {
    "ray-cronjob.sample.yaml": Fate(),  # of the job that is made at the next full minute
    "ray-job.custom-head-svc.yaml": Fate(front="custom-ray-head-service-name"),
    "ray-job.deletion-rules.yaml": Fate(after=After.ALL_GOES),
    "ray-job.interactive-mode.yaml": Fate("Waiting", "InteractiveMode"),
    "ray-job.kueue-toy-sample.yaml": Fate(after=After.CLUSTER_GOES),
    "ray-job.resources.yaml": Fate(),
    "ray-job.sample.yaml": Fate(),
    "ray-job.shutdown.yaml": Fate(after=After.CLUSTER_GOES),
    "ray-job.sidecar-mode.yaml": Fate(mode="SidecarMode"),
    "ray-job.use-existing-raycluster.yaml": Fate("Initializing"),
}
FOREIGN_CLUSTER = "ray-cluster-kuberay"
"""What `use-existing-raycluster` selects, and no sample makes."""


class Sample(Struct, frozen=True):
    """A file with a RayJob or a RayCronJob, and what goes with it."""

    file: str
    main: Json
    others: tuple[Json, ...]

    @property
    def fate(self) -> Fate:
        spec = self.main["spec"]
        goes = spec.get("shutdownAfterJobFinishes") and spec.get("ttlSecondsAfterFinished", 0) < 60
        return FATES.get(self.file, Fate(after=After.CLUSTER_GOES if goes else After.STAYS))

    @property
    def name(self) -> str:
        meta = self.main["metadata"]
        return meta.get("name") or meta["generateName"]


def samples() -> list[Sample]:
    found: list[Sample] = []
    for path, all_of_it in documents():
        for document in all_of_it:
            if document.get("kind") in {"RayJob", "RayCronJob"}:
                others = tuple(each for each in all_of_it if each is not document)
                found.append(Sample(path.name, document, others))
    return found


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """As for all tests, but submitters run until they are told how they end."""
    nodes = NodeSettings(run_time=3600.0)
    opened = (
        real_world(REAL_KUBECONFIG, nodes=replace(nodes, heartbeat=10.0))
        if REAL_KUBECONFIG
        else embedded_world(nodes=nodes)
    )
    async with opened as world:
        yield world


async def open_rays(world: World) -> Rays:
    rays = Rays(world)
    await rays.open()
    rays.ray.course = lambda _body: Course(running=3)
    actors = DashboardActors(
        rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
    )
    world.start_operator(kinds=kinds_of(await all_features(world), actors))
    return rays


def test_every_sample_has_a_row_in_the_table():
    if not NAMED:
        assert sorted({each.file for each in samples()}) == sorted(FATES)


@pytest.mark.slow
@pytest.mark.parametrize("crds", ["ours", "theirs"])
async def test_every_job_reaches_the_state_it_should_unchanged(world: World, crds: str):
    namesakes: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples():
        namesakes[sample.name].append(sample)
    async with served_by(world, crds, "rayclusters", "rayjobs", "raycronjobs"):
        rays = await open_rays(world)
        async with asyncio.TaskGroup() as group:
            for chain in namesakes.values():
                group.create_task(live_through(rays, chain))


async def live_through(rays: Rays, chain: list[Sample]) -> None:
    """One after the other: they have the same name."""
    for sample in chain:
        for document in sample.others:
            await apply(rays.world, document)
        made = await apply(rays.world, sample.main)
        name = made["metadata"]["name"]
        try:
            if made["kind"] == "RayCronJob":
                if not made["spec"]["schedule"].startswith("*"):  # once a day
                    often = {"spec": {"schedule": "* * * * *"}}
                    await rays.world.user.merge_patch(
                        RAYCRONJOBS, rays.world.namespace, name, often
                    )
                await live_by_the_clock(rays, name)
            else:
                await live(rays, name, sample.fate)
                await leave(rays, name)
        except AssertionError as error:
            raise AssertionError(f"{sample.file}: {error}") from error


async def live(rays: Rays, name: str, fate: Fate) -> None:
    if fate.first:
        await rays.reaches(fate.first, name, seconds=PATIENCE)
        await do_what_its_user_does(rays, name, fate)
    status = await rays.reaches("Complete", name, seconds=PATIENCE)
    assert (status["jobStatus"], status["succeeded"]) == ("SUCCEEDED", 1)
    assert not status.get("failed")
    assert rays.ray.submissions(status["jobId"]) == 1
    cluster = status["rayClusterName"]
    if fate.front:
        front = await rays.world.user.get(SERVICES, rays.world.namespace, fate.front)
        assert (front.spec.selector or {})["ray.io/cluster"] == cluster
    has_submitter = name in await rays.jobs_of_kubernetes()
    match fate.after:
        case After.STAYS:
            assert cluster in await rays.clusters()
            assert has_submitter is (fate.mode == "K8sJobMode")
        case After.CLUSTER_GOES:
            await has_gone(rays, cluster)
            assert await rays.state(name) == "Complete"
            assert has_submitter
        case After.ALL_GOES:
            await rays.world.eventually(lambda: not workers(rays, cluster), seconds=PATIENCE)
            assert cluster in await rays.clusters()
            await has_gone(rays, cluster)
            assert not await rays.is_gone(name)
            await rays.world.eventually(lambda: rays.is_gone(name), seconds=PATIENCE)


async def do_what_its_user_does(rays: Rays, name: str, fate: Fate) -> None:
    world = rays.world
    if fate.mode == "InteractiveMode":
        cluster = (await rays.status(name))["rayClusterName"]
        (head,) = (pod for pod in rays.heads() if f"{cluster}-head" in pod.metadata.name)
        rays.ray.add(rays.head_of(head), "by-hand")
        await rays.patch(name, jobId="by-hand")
        return

    async def told() -> bool:
        status = await rays.status(name)
        ready = find_condition(status.get("conditions", ()), "Ready")
        return "conditions" not in status or (ready or {}).get("reason") == "RayClusterNotFound"

    await world.eventually(told, seconds=PATIENCE)  # KubeRay's CRD keeps no conditions
    body = example_cluster(FOREIGN_CLUSTER, replicas=1)
    await world.user.create(RAYCLUSTERS, world.namespace, body)


async def live_by_the_clock(rays: Rays, name: str) -> None:
    """A RayJob at the next full minute, which completes; no more when it is suspended."""
    world = rays.world

    async def made() -> list[RayJob]:
        found = (await world.user.list(RAYJOBS, world.namespace)).items
        return [job for job in found if is_made_by(job, name)]

    first, *_ = await world.eventually(made, seconds=PATIENCE, pause=0.5)
    patch = {"spec": {"suspend": True}}
    await world.user.merge_patch(RAYCRONJOBS, world.namespace, name, patch)
    await live(rays, first.metadata.name, Fate())
    status = (await world.user.get(RAYCRONJOBS, world.namespace, name)).status
    assert "lastScheduleTime" in status
    await world.user.delete(RAYCRONJOBS, world.namespace, name, propagation="Background")
    await world.becomes(made, lambda found: not found, seconds=PATIENCE, pause=0.5)


def is_made_by(job: RayJob, cron_job: str) -> bool:
    owner = job.metadata.controller
    return owner is not None and (owner.kind, owner.name) == ("RayCronJob", cron_job)


async def leave(rays: Rays, name: str) -> None:
    """Its user deletes it: nothing that was made for it stays, and nothing else goes."""
    if await rays.is_gone(name):
        return
    mine = (await rays.status(name)).get("rayClusterName", "")
    await rays.world.user.delete(RAYJOBS, rays.world.namespace, name, propagation="Background")
    await rays.world.eventually(lambda: rays.is_gone(name), seconds=PATIENCE)
    if mine == FOREIGN_CLUSTER:
        assert mine in await rays.clusters()
        return
    await has_gone(rays, mine)
    await rays.world.becomes(
        rays.jobs_of_kubernetes, lambda found: name not in found, seconds=PATIENCE
    )


async def has_gone(rays: Rays, cluster: str) -> None:
    await rays.world.becomes(
        rays.clusters, lambda found: cluster not in found, seconds=PATIENCE, pause=0.5
    )


def workers(rays: Rays, cluster: str) -> list[str]:
    return [
        pod.metadata.name
        for pod in rays.world.journal.workers()
        if (pod.metadata.labels or {})["ray.io/cluster"] == cluster
    ]


@pytest.mark.skipif(bool(NAMED), reason="other samples are tried")
async def test_the_sample_for_kueue_waits_for_its_admission(world: World):
    rays = await open_rays(world)
    (sample,) = (each for each in samples() if each.file == "ray-job.kueue-toy-sample.yaml")
    spec = sample.main["spec"] | {"suspend": True}  # as Kueue's webhook has it
    made = await apply(world, sample.main | {"spec": spec})
    name = made["metadata"]["name"]
    await rays.reaches("Suspended", name, seconds=PATIENCE)
    await world.settle(3)
    assert await rays.state(name) == "Suspended"
    assert await rays.clusters() == []
    await rays.patch(name, suspend=False)
    await live(rays, name, sample.fate)
    assert (await rays.job(name)).spec["suspend"] is False


async def apply(world: World, document: Json) -> Json:
    """As `kubectl apply -n` or, for want of a name, `kubectl create`; what the server stored."""
    if document["apiVersion"].partition("/")[0] in NEEDS_MORE_THAN_CORE:
        return document
    path = collection(world, document)
    meta = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    body = document | {"metadata": meta}
    try:
        return await world.user.request_json("POST", path, body=body)
    except AlreadyExists:
        assert not document["kind"].startswith("Ray")
        return await world.user.request_json("PUT", f"{path}/{meta['name']}", body=body)
