"""The chart is installed as the README says; then every sample does what it should, without a 403.

The samples lie beside the project, in `../shared/samples` or in the folder that `MANTA_SAMPLES`
names.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.chart.helm import CHART, needs_helm
from tests.e2e.processes import Kubectl, needs_kubectl
from tests.integration.deployed import Site, namespaces_work, site
from tests.integration.releases import NO_PORTS, Release, for_any_server, operator, until
from tests.samples import SAMPLES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(600),
    needs_helm,
    needs_kubectl,
    pytest.mark.skipif(not namespaces_work(), reason="SKIP: processes get no mounts of their own"),
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="SKIP: no samples beside the project"),
]

STATE_OF_JOB = {
    "ray-job.interactive-mode.yaml": "Waiting",
    "ray-job.use-existing-raycluster.yaml": "Initializing",
}
"""The others run: their clusters are ready, and there is no Ray in a simulated pod."""


def files() -> list[Path]:
    return sorted(SAMPLES.glob("*.yaml"))


def home_of(at: Site, file: Path) -> str:
    """The namespace that a sample has to itself: many have the same names."""
    return at.namespace(file.stem.replace(".", "-")[:40])


async def is_as_it_should_be(at: Site, file: Path) -> bool:
    """Whether all that is in the namespace of a sample is in its state."""
    home = home_of(at, file)
    clusters = await statuses(at, RAYCLUSTERS, home)
    jobs = await statuses(at, RAYJOBS, home)
    services = await statuses(at, RAYSERVICES, home)
    cron_jobs = await statuses(at, RAYCRONJOBS, home)
    wanted = STATE_OF_JOB.get(file.name, "Running")
    return (
        any((clusters, jobs, services, cron_jobs))
        and all(each.get("state") == "ready" for each in clusters)
        and all(each.get("jobDeploymentStatus") == wanted for each in jobs)
        and (bool(clusters) or not services)
        and all(each.get("lastScheduleTime") for each in cron_jobs)
    )


async def statuses(at: Site, resource: Resource[Any], namespace: str) -> list[Mapping[str, Any]]:
    return [each.status or {} for each in (await at.client.list(resource, namespace)).items]


async def test_three_commands_install_the_chart_and_every_sample_is_served(tmp_path: Path):
    async with site(()) as at:
        release = Release(at, tmp_path)
        kubectl = Kubectl(release.kubeconfig)
        chart = for_any_server(shutil.copytree(CHART, tmp_path / "chart"))
        await at.create_namespaces(release.namespace, *(home_of(at, file) for file in files()))
        gate = "featureGates[0].name=RayCronJob,featureGates[0].enabled=true"
        await release.run("install", str(chart), "--set", NO_PORTS, "--set", gate)
        (tmp_path / "mounts").mkdir()
        async with operator(at, release, tmp_path / "mounts") as container:
            for file in files():
                # Documents of kinds that no bare API server knows are refused; the others apply.
                verb = "create" if "generateName" in file.read_text() else "apply"
                command = verb, "-n", home_of(at, file), "-f", str(file)
                await asyncio.to_thread(kubectl, *command, check=False)

            async def reached() -> bool:
                return not await waiting(at)

            try:
                await until(reached, container)
            except TimeoutError:
                pytest.fail("\n".join(await waiting(at)))
            refused = {each for each in at.asked(release.namespace) if not each.allowed}
            assert refused == set()
            assert not [each for each in container.lines() if each["level"] == "error"]


async def waiting(at: Site) -> list[str]:
    """The samples that are not as they should be, and what is said of them."""
    late = [file for file in files() if not await is_as_it_should_be(at, file)]
    return [f"{file.name}: {await all_statuses(at, file)}" for file in late]


async def all_statuses(at: Site, file: Path) -> list[Mapping[str, Any]]:
    kinds = RAYCLUSTERS, RAYJOBS, RAYSERVICES, RAYCRONJOBS
    return [status for kind in kinds for status in await statuses(at, kind, home_of(at, file))]
