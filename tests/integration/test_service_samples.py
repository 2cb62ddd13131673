"""KubeRay's manifests of RayServices, unchanged: each becomes ready.

With Manta's CRDs and with KubeRay's, on either API server; Serve's answers are recorded ones.
`MANTA_SAMPLES` names another folder of manifests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
import yaml
from msgspec import Struct

from controller.kube.errors import NotFound
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from tests.integration.harness import World
from tests.integration.rayservices import Services, condition, reason
from tests.integration.test_job_samples import apply
from tests.integration.test_samples import all_features, served_by
from tests.samples import SAMPLES, THEIR_CRDS, documents

PATIENCE = 240.0
"""Seconds for one step, on a real API server that all samples share."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not SAMPLES.is_dir() or not THEIR_CRDS.is_dir(),
        reason="SKIP: no samples beside the project; users' RayServices not tried",
    ),
]

Json = dict[str, Any]


class Sample(Struct, frozen=True):
    """A RayService of a file, and the other documents of the file."""

    file: str
    main: Json
    others: tuple[Json, ...]

    @property
    def name(self) -> str:
        return self.main["metadata"]["name"]

    @property
    def serve_service(self) -> str:
        own = self.main["spec"].get("serveService", {}).get("metadata", {})
        return own.get("name", f"{self.name}-serve-svc")


def samples() -> dict[str, list[Sample]]:
    """The RayServices of all files; those of one name are tried one after the other."""
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for path, all_of_it in documents():
        for document in all_of_it:
            if "$" in str(document.get("spec")):
                continue  # to be filled in by its user
            if document.get("kind") == "RayService":
                others = tuple(each for each in all_of_it if each.get("kind") != "RayService")
                sample = Sample(path.name, document, others)
                found[sample.name].append(sample)
    return found


@pytest.mark.parametrize("crds", ["ours", "theirs"])
async def test_every_sample_of_a_service_becomes_ready_unchanged(world: World, crds: str):
    async with served_by(world, crds, "rayclusters", "rayservices"):
        settings = await all_features(world)
        services = Services(world, settings.ray)
        services.start_operator()
        async with asyncio.TaskGroup() as group:
            for chain in samples().values():
                group.create_task(live_through(services, chain))


async def live_through(services: Services, chain: list[Sample]) -> None:
    for sample in chain:
        for document in sample.others:
            await apply(services.world, document)
        await apply(services.world, sample.main)
        try:
            await serve(services, sample)
            await leave(services, sample)
        except AssertionError as error:
            raise AssertionError(f"{sample.file}: {error}") from error


async def serve(services: Services, sample: Sample) -> None:
    """It is ready, and its Serve has got the user's config once."""
    status = await services.reaches(
        lambda status: condition(status, "Ready") == "True", sample.name, seconds=PATIENCE
    )
    assert status["serviceStatus"] == "Running"
    assert status["numServeEndpoints"] >= 1
    assert reason(status, "UpgradeInProgress") == "NoPendingCluster"
    assert "pendingServiceStatus" not in status
    active = status["activeServiceStatus"]
    cluster, applications = active["rayClusterName"], active["applicationStatuses"]
    assert {each["status"] for each in applications.values()} == {"RUNNING"}
    for name in (sample.serve_service, f"{sample.name}-head-svc"):
        assert await services.selected(name) == cluster
    wanted = yaml.safe_load(sample.main["spec"]["serveConfigV2"])
    assert applications.keys() == {each["name"] for each in wanted["applications"]}
    assert services.serve_of(cluster).puts == [wanted]


async def leave(services: Services, sample: Sample) -> None:
    """Its user deletes it: no cluster and no service of it stays."""
    world = services.world
    await world.user.delete(RAYSERVICES, world.namespace, sample.name)

    async def is_gone() -> bool:
        clusters = await world.user.list(RAYCLUSTERS, world.namespace)
        found = await world.user.list(SERVICES, world.namespace)
        mine = [each.metadata.controller for each in (*clusters.items, *found.items)]
        if any(owner is not None and owner.name == sample.name for owner in mine):
            return False
        try:
            await services.service(sample.name)
        except NotFound:
            return True
        return False

    await world.eventually(is_gone, seconds=PATIENCE, pause=0.5)
