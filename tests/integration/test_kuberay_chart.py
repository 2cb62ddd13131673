"""KubeRay's own chart with only the image changed: its command, account, rights and probes.

Every request of the operator is compared with what the chart grants.
"""

from __future__ import annotations

import asyncio
import fcntl
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.kube.errors import NotFound
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.chart.helm import KUBERAY_CHART, needs_helm, needs_kuberay_charts, only, rendered
from tests.integration.cpu_quota import cpu_quota, quotas_work
from tests.integration.deployed import (
    MANAGER,
    Container,
    Site,
    container_of,
    definitions_in,
    namespaces_work,
    site,
)
from tests.integration.harness import example_cluster
from tests.integration.rays import job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.test_rights import everything
from tests.integration.test_rights_of_jobs import every_minute

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(600),
    needs_helm,
    needs_kuberay_charts,
    pytest.mark.skipif(not namespaces_work(), reason="SKIP: processes get no mounts of their own"),
]

NOT_GRANTED = {("list", "controllerrevisions.apps")}
"""What KubeRay's chart does not grant, as docs/install.md says: the history of rolling updates."""

START_COSTS = 3.0
"""Seconds of the processor at most, until the probes pass."""


@dataclass
class Running:
    """The operator under a chart."""

    site: Site
    container: Container
    namespace: str

    async def until(self, reached: Callable[[], Awaitable[Any]], seconds: float = 90.0) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not (found := await reached()):
            assert self.container.popen.poll() is None, self.container.log.read_text()
            assert loop.time() < deadline, self.container.log.read_text()[-3000:]
            await asyncio.sleep(0.1)
        return found

    async def state(self, namespace: str) -> str:
        found = await self.site.client.get(RAYCLUSTERS, namespace, "example")
        return str(found.status.get("state", ""))

    async def serves(self, *namespaces: str) -> None:
        """Clusters become ready, and go when they are deleted."""
        client = self.site.client
        for namespace in namespaces:
            await client.create(RAYCLUSTERS, namespace, everything())
        for namespace in namespaces:
            await self.until(lambda n=namespace: self._is(n, "ready"))
        for namespace in namespaces:
            await client.delete(RAYCLUSTERS, namespace, "example")
            await self.until(lambda n=namespace: self._is_gone(n))

    async def _is(self, namespace: str, state: str) -> bool:
        return await self.state(namespace) == state

    async def _is_gone(self, namespace: str) -> bool:
        try:
            await self.state(namespace)
        except NotFound:
            return True
        return False

    def refused(self) -> set[tuple[str, str]]:
        asked = self.site.asked(self.namespace)
        return {(each.verb, each.resource) for each in asked if not each.allowed}

    def allowed(self) -> set[tuple[str, str]]:
        asked = self.site.asked(self.namespace)
        return {(each.verb, each.resource) for each in asked if each.allowed}


@pytest.fixture
async def installed() -> AsyncIterator[Site]:
    async with site(definitions_in(KUBERAY_CHART / "crds")) as it:
        yield it


@pytest.fixture
def ports() -> Iterator[None]:
    """The ports that the chart asks for belong to one test at a time."""
    with (Path(tempfile.gettempdir()) / "manta-test-8080.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@asynccontextmanager
async def running(
    site: Site, folder: Path, *values: str, namespaces: tuple[str, ...] = ()
) -> AsyncIterator[Running]:
    """The operator under KubeRay's chart, with these values, once its probes pass."""
    release = site.namespace("release")
    await site.create_namespaces(release, *namespaces)
    objects = rendered(KUBERAY_CHART, *values, namespace=release)
    async with site.applied(objects), container_of(site, objects, folder, MANAGER) as container:
        it = Running(site, container, release)
        (described,) = only("Deployment", objects)["spec"]["template"]["spec"]["containers"]
        for probe in ("livenessProbe", "readinessProbe"):
            await it.until(lambda probe=probe: asyncio.to_thread(passes, described, probe))
        yield it


def passes(container: dict[str, Any], probe: str) -> bool:
    """Whether the container answers one of its probes."""
    action = container[probe]["httpGet"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    try:
        url = f"http://127.0.0.1:{ports[action['port']]}{action['path']}"
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.usefixtures("ports")
async def test_cluster_wide_every_kind_is_served_with_the_rights_of_the_chart(
    installed: Site, tmp_path: Path
):
    gates = "featureGates[0].name=RayCronJob", "featureGates[0].enabled=true"
    work = installed.namespace("work")
    async with running(
        installed, tmp_path, "useKubernetesProxy=true", *gates, namespaces=(work,)
    ) as operator:
        assert operator.container.cpu_seconds() < START_COSTS
        client = installed.client
        await client.create(RAYJOBS, work, job_manifest("by-http"))
        await client.create(RAYJOBS, work, job_manifest("by-job", submissionMode="K8sJobMode"))
        await client.create(RAYSERVICES, work, service_manifest())
        await client.create(RAYCRONJOBS, work, every_minute())
        await operator.serves(work)
        wanted = {
            ("get", "services/proxy"),  # the dashboards are asked
            ("create", "jobs.batch"),
            ("patch", "rayservices/status.ray.io"),
            ("patch", "raycronjobs/status.ray.io"),
            ("update", "leases.coordination.k8s.io"),
        }

        async def asked() -> bool:
            return wanted <= operator.allowed()

        await operator.until(asked, seconds=30)
        assert operator.refused() == NOT_GRANTED
        warned = [each["flag"] for each in operator.container.lines() if "flag" in each]
        assert warned == ["enable-metrics"]
        assert not [each for each in operator.container.lines() if each["level"] == "error"]


@dataclass
class Probe:
    """One probe of a container, as the kubelet asks it from the container's start on."""

    container: dict[str, Any]
    name: str
    fails: int = 0
    passed: int = 0

    async def ask_until_it_fails(self) -> None:
        """Return once the kubelet would act: restart the container, or send it no requests."""
        settings = self.container[self.name]
        await asyncio.sleep(settings["initialDelaySeconds"])
        while self.fails < settings["failureThreshold"]:
            if await asyncio.to_thread(passes, self.container, self.name):
                self.passed, self.fails = self.passed + 1, 0
            else:
                self.fails += 1
            await asyncio.sleep(settings["periodSeconds"])


@pytest.mark.usefixtures("ports")
@pytest.mark.skipif(not quotas_work(), reason="SKIP: control groups cannot be written here")
async def test_a_tenth_of_a_core_is_enough_to_start_and_to_serve_before_the_kubelet_loses_patience(
    installed: Site, tmp_path: Path, record_property: Callable[[str, object], None]
):
    release, work = map(installed.namespace, ("release", "work"))
    await installed.create_namespaces(release, work)
    objects = rendered(KUBERAY_CHART, namespace=release)
    (described,) = only("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    probes = [Probe(described, name) for name in ("livenessProbe", "readinessProbe")]
    with cpu_quota(0.1) as put:
        async with (
            installed.applied(objects),
            container_of(installed, objects, tmp_path, MANAGER) as container,
        ):
            put(container.popen.pid)
            loop = asyncio.get_running_loop()
            began = loop.time()
            kubelet = [asyncio.create_task(probe.ask_until_it_fails()) for probe in probes]

            async def ready() -> bool:
                assert not any(task.done() for task in kubelet), container.log.read_text()
                return all(probe.passed for probe in probes)

            operator = Running(installed, container, release)
            await operator.until(ready)
            record_property("told", f"ready after {loop.time() - began:.0f} s with 0.1 core")
            await operator.serves(work)
            assert not any(task.done() for task in kubelet)
            for task in kubelet:
                task.cancel()


@pytest.mark.usefixtures("ports")
async def test_with_rights_in_the_watched_namespaces_alone_just_these_are_served(
    installed: Site, tmp_path: Path
):
    one, two, other = map(installed.namespace, ("one", "two", "other"))
    values = "singleNamespaceInstall=true", f"watchNamespace={{{one},{two}}}"
    async with running(installed, tmp_path, *values, namespaces=(one, two, other)) as operator:
        await installed.client.create(RAYCLUSTERS, other, example_cluster())
        await operator.serves(one, two)
        assert await operator.state(other) == ""
        assert operator.refused() <= NOT_GRANTED


@pytest.mark.usefixtures("ports")
async def test_installed_for_one_namespace_with_the_settings_in_a_file(
    installed: Site, tmp_path: Path
):
    label = "configuration.defaultPodLabels.team=a"
    values = "singleNamespaceInstall=true", "configuration.enabled=true", label
    log = "logging.baseDir=/var/log/kuberay", "logging.fileName=operator.log"
    async with running(installed, tmp_path, *values, *log, "featureGates=null") as operator:
        await operator.serves(operator.namespace)
        assert operator.refused() <= NOT_GRANTED
        assert "election.acquired" in (tmp_path / "var/log/kuberay/operator.log").read_text()


@pytest.mark.usefixtures("ports")
async def test_without_its_rights_it_says_which_are_missing(installed: Site, tmp_path: Path):
    values = "singleNamespaceInstall=true", "rbacEnable=false"
    async with running(installed, tmp_path, *values) as operator:

        async def said() -> bool:
            text = operator.container.log.read_text().replace('\\"', '"')
            missing = 'cannot list resource "pods" in API group ""'
            return f'{missing} in the namespace "{operator.namespace}"' in text

        await operator.until(said)
