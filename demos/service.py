"""The demos of RayServices that get new clusters under traffic, at once and in steps."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from controller.apimachinery.custom_object import conditions_of, mapping, status_of
from controller.kube.errors import ConfigurationError
from controller.kube.objects import Gateway
from controller.kube.resources import CONFIG_MAPS, GATEWAYS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES, RayService
from demos import serve_client
from demos.serve_client import TIMEOUT, ask
from demos.stage import NAMESPACE, Demo, start_process
from demos.traffic import (
    CLIENT,
    MeasuredShares,
    Put,
    PutRecorder,
    Traffic,
    chart_of,
    client_pod,
    versions_of,
)
from demos.view import cluster_words, pod_state, pod_words
from devcluster.gateway import GATEWAY_CLASSES

Json = dict[str, Any]

_PORT: Final = 8000
_GATEWAY_PORT: Final = 80
_STEADY: Final = 3  # seconds in which all answers are the same
_HALF: Final = 50  # percent
_KEY: Final = f"{NAMESPACE}/{CLIENT}"
_ROLES: Final = {"active": 100, "pending": 0}
"""The clusters of a RayService, and what they have without an incremental upgrade, in percent."""


def service_words(service: RayService) -> dict[str, str]:
    """Return the conditions of a RayService, and its clusters with their shares."""
    name = f"RayService {service.metadata.name}"
    words = {name: "there"}
    for each in conditions_of(service):
        words[f"{name}: {each['type']}"] = str(each.get("status"))
    for role, (cluster, *shares) in _clusters_in(service).items():
        given = zip(shares, ("capacity", "of the requests"), strict=True)
        said = ", ".join(f"{value} % {what}" for value, what in given if value is not None)
        words[f"{name}: {role} cluster"] = (cluster or "none") + (f" ({said})" if said else "")
    return words


def _clusters_in(service: RayService | None) -> dict[str, tuple[str, int | None, int | None]]:
    """Return name, capacity and weight of each cluster by its role; without a name if it is not."""
    status = status_of(service) if service else {}
    recorded = {role: mapping(status.get(f"{role}ServiceStatus")) for role in _ROLES}
    return {
        role: (
            str(each.get("rayClusterName") or ""),
            each.get("targetCapacity"),
            each.get("trafficRoutedPercent"),
        )
        for role, each in recorded.items()
    }


class ServiceDemo(Demo):
    """Applications of real Ray Serve get a new cluster without downtime.

    The operator is killed in the middle of the upgrade. A pod asks the applications up to 20 times
    a second. It works only if no request failed, and if each cluster got its own config only.
    """

    kind = RAYSERVICES
    beside = (CONFIG_MAPS, GATEWAY_CLASSES)
    words: ClassVar = {RAYSERVICES: service_words, RAYCLUSTERS: cluster_words, PODS: pod_words}
    apart = True

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        try:
            self.config: Json = yaml.safe_load(self.object["spec"]["serveConfigV2"])
            applications = versions_of(self.config)
            self.new_version("v2")
        except (yaml.YAMLError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{manifest} cannot be played with: each deployment of its serveConfigV2 needs a "
                f"user_config with a version, which its answers repeat ({error})"
            ) from error
        if len(applications) < 2:
            raise ConfigurationError(f"{manifest} has fewer than two applications")
        self.traffic = Traffic()
        self.puts: list[Put] = []
        self.first = self.second = ""

    # The edits.

    @property
    def routes(self) -> dict[str, str]:
        """The paths of the applications, by name."""
        return {each["name"]: each["route_prefix"] for each in self.config["applications"]}

    def new_version(self, version: str) -> Json:
        """Return the specification with another image label and version of all applications."""
        spec = copy.deepcopy(self.object["spec"])
        for container in _containers(spec):
            container["image"] += f"-{version}"
        return self._with_versions(spec, dict.fromkeys(self.routes, version))

    def new_config(self, version: str, changed: Mapping[str, str]) -> Json:
        """Return the same specification, with other versions of some applications."""
        versions = {**dict.fromkeys(self.routes, version), **changed}
        return self._with_versions(self.new_version(version), versions)

    def _with_versions(self, spec: Json, versions: Mapping[str, str]) -> Json:
        config = copy.deepcopy(self.config)
        for application in config["applications"]:
            for deployment in application["deployments"]:
                deployment["user_config"]["version"] = versions[application["name"]]
        return spec | {"serveConfigV2": yaml.safe_dump(config, sort_keys=False)}

    # The steps.

    async def play(self) -> None:
        """Change image and config in one edit, then the config of one application."""
        await self.begin()
        async with self.step("client asks -> answers of v1"):
            image = str(next(_containers(self.object["spec"]))["image"])
            pod = client_pod(image, self._host, _PORT, list(self.routes.values()))
            await self.user.create(PODS, NAMESPACE, pod)
            self.tasks.create_task(self._follow())
            await self.answered("v1", self.first)
            await self._ask_from_here()
        async with self.step("image, config edited -> v2"):
            await self.set("/spec", self.new_version("v2"))
            await self.view.until(
                lambda: bool(self.cluster_of("pending")) and len(self._clusters) == 2
            )
            self.second = self.cluster_of("pending")
            await self.kill_operator()
            await self.view.until(lambda: self.is_settled(self.second))
            await self.answered("v2", self.second)
        await self.old_clusters_go()
        *_, last = self.routes
        async with self.step(f"config of {last} edited -> v3"):
            await self.set("/spec", self.new_config("v2", {last: "v3"}))
            await self.answered("v2", self.second, {last: "v3"})
        async with self.step("deleted -> nothing left"):
            await self.user.delete(PODS, NAMESPACE, CLIENT)
            await self.view.until(lambda: _KEY not in self.view.objects[PODS])
            await self.remove()
        self.check({self.first: {"v1"}, self.second: {"v2", "v3"}})
        for path in list(self.routes.values())[:-1]:
            processes = self.traffic.processes(path, self.second)
            if len(processes) != 1:
                self.wrong.append(f"the replica of {path} changed: {sorted(processes)}")

    async def begin(self) -> None:
        """Create the RayService and what it needs; the first cluster serves."""
        PutRecorder(self.cluster.server, self._saw_put)
        await self.reach(
            "created -> Ready", lambda: self.view.is_true(RAYSERVICES, "Ready"), self.create()
        )
        self.first = self.cluster_of("active")

    async def old_clusters_go(self) -> None:
        """Wait until one cluster is left, and for a few more seconds of answers."""
        async with self.step("-> old clusters deleted"):
            await self.view.until(lambda: len(self._clusters) == 1)
            seconds = len(self.traffic.seconds) + _STEADY
            await self.view.until(lambda: len(self.traffic.seconds) >= seconds)

    def cluster_of(self, role: str) -> str:
        """Return the name of the active or pending cluster; empty if there is none."""
        return _clusters_in(self.view.one(RAYSERVICES))[role][0]

    def is_settled(self, cluster: str) -> bool:
        """Return whether the cluster is active, and none is pending."""
        return self.cluster_of("active") == cluster and not self.cluster_of("pending")

    async def answered(
        self, version: str, cluster: str, changed: Mapping[str, str] | None = None
    ) -> None:
        """Wait until all answers of some seconds are of this version and of this cluster."""
        versions = {**dict.fromkeys(self.routes, version), **(changed or {})}
        wanted = {(self.routes[name], each, cluster) for name, each in versions.items()}
        await self.view.until(lambda: self.traffic.latest(_STEADY) == wanted)

    def check(self, versions: Mapping[str, set[str]]) -> None:
        """Record violations: failed requests, and versions that a cluster must not have."""
        self.wrong += wrong_answers(self.puts, self.traffic, versions)

    def counts(self) -> Iterable[str]:
        """Yield the counts of requests, and the configs."""
        yield from self.traffic.lines()
        yield from (put.text() for put in self.puts)

    def saw_line(self, line: str) -> None:
        """Count what the client has printed."""
        for failure in self.traffic.saw_line(line).failures:
            self.screen.change(f"request failed: {failure}")
        self.view.refresh()

    @property
    def _clusters(self) -> Mapping[str, Any]:
        return self.view.objects[RAYCLUSTERS]

    @property
    def _host(self) -> str:
        return f"{self.name}-serve-svc"

    def _saw_put(self, put: Put) -> None:
        self.puts.append(put)
        self.screen.change(put.text())
        self.view.refresh()

    async def _follow(self) -> None:
        """Read what the client prints."""
        pods = self.view.objects[PODS]
        await self.view.until(lambda: _KEY in pods and pod_state(pods[_KEY]) == "Ready")
        async for line in self.follow_log(pods[_KEY], CLIENT):
            self.saw_line(line)

    async def _ask_from_here(self) -> None:
        """Say how this machine reaches the service, and try it."""
        address = self.node.service_address(NAMESPACE, self._host)
        path = next(iter(self.routes.values()))
        pods, here = f"http://{self._host}:{_PORT}", f"http://{address}:{_PORT}{path}"
        self.screen.change(f"pods ask {pods}; from this machine: curl {here}")
        with closing(HTTPConnection(address, _PORT, timeout=TIMEOUT)) as connection:
            _, version, cluster, _ = await asyncio.to_thread(ask, connection, path)
        self.screen.change(f"this machine asked {here}: {version} of {cluster}")


def _containers(spec: Json) -> Iterator[Json]:
    """Yield the Ray containers: the first of each pod template, the head's first."""
    cluster = spec["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", ())):
        yield group["template"]["spec"]["containers"][0]


def wrong_answers(
    puts: Sequence[Put], traffic: Traffic, versions: Mapping[str, set[str]]
) -> list[str]:
    """Return sentences about failed requests, and versions of another cluster, sent or answered."""
    failed = [f"{len(traffic.failures)} requests failed"] if traffic.failures else []
    sent = [
        f"cluster {put.cluster} got {version}"
        for put in puts
        for version in sorted({*put.versions.values()} - versions.get(put.cluster, set()))
    ]
    answered = [
        f"cluster {cluster} answered with {version}"
        for version, cluster in traffic.by_version()
        if version not in versions.get(cluster, set())
    ]
    return [*failed, *sent, *answered]


def gateway_words(gateway: Gateway) -> dict[str, str]:
    """Return the address of a Gateway."""
    return {f"Gateway {gateway.metadata.name}": _address(gateway) or "no address"}


def _address(gateway: Gateway) -> str:
    return next((str(each["value"]) for each in gateway.status.addresses), "")


class IncrementalDemo(ServiceDemo):
    """Capacity and requests move to a new cluster step by step, and back.

    A Gateway stands before the clusters. The first upgrade is reverted half-way, the second is
    completed. A client on this machine sends the Gateway up to 20 requests a second. It works only
    if no request failed, the old cluster's config never changed except for its capacity, and
    everything moved in steps. `chart` is a file for a chart of that.
    """

    words: ClassVar = ServiceDemo.words | {GATEWAYS: gateway_words}

    def __init__(self, manifest: Path, chart: Path | None = None) -> None:
        super().__init__(manifest)
        if chart is not None and not chart.parent.is_dir():
            raise ConfigurationError(f"--chart {chart}: there is no folder {chart.parent}")
        self._chart = chart
        self._shares = MeasuredShares()
        self._process: asyncio.subprocess.Process | None = None

    async def play(self) -> None:
        """Upgrade, revert, upgrade again; then draw the chart."""
        self.view.on_change.append(lambda: self._shares.saw(self._present_shares()))
        try:
            await self._upgrades()
        finally:
            await self._end_client()
            if self._chart is not None:
                picture = chart_of(self._shares, self.traffic).svg()
                await asyncio.to_thread(self._chart.write_text, picture)

    async def _upgrades(self) -> None:
        old, shares = self.object["spec"], self._shares
        await self.begin()
        async with self.step("Gateway programmed -> answers of v1"):
            await self._start_client()
            await self.answered("v1", self.first)
        async with self.step(f"edited -> {_HALF} % of the requests"):
            await self._edit("edited: v2", self.new_version("v2"))
            await self.view.until(lambda: shares.weight(self.cluster_of("pending")) >= _HALF)
            reverted = self.cluster_of("pending")
        async with self.step("reverted -> all requests are back"):
            await self._edit("reverted: v1", old)
            await self.view.until(lambda: self.is_settled(self.first))
            await self.answered("v1", self.first)
        async with self.step("edited again -> v2"):
            await self._edit("edited: v2", self.new_version("v2"))
            await self.view.until(
                lambda: (
                    self.cluster_of("active") not in {self.first, ""}
                    and not self.cluster_of("pending")
                )
            )
            self.second = self.cluster_of("active")
            await self.answered("v2", self.second)
            shares.mark("complete")
        await self.old_clusters_go()
        async with self.step("deleted -> nothing left"):
            await self._end_client()
            await self.remove()
        self.check({self.first: {"v1"}, reverted: {"v2"}, self.second: {"v2"}})
        options = old["upgradeStrategy"]["clusterUpgradeOptions"]
        self.wrong += shares.wrong(options["maxSurgePercent"], options["stepSizePercent"])

    async def _edit(self, what: str, spec: Json) -> None:
        self._shares.mark(what)
        await self.set("/spec", spec)

    def _present_shares(self) -> dict[str, tuple[int, int]]:
        """Return the capacity and weight of each cluster in percent, by name."""
        found = dict[str, tuple[int, int]]()
        for role, (name, *values) in _clusters_in(self.view.one(RAYSERVICES)).items():
            if name:
                capacity, weight = (_ROLES[role] if each is None else each for each in values)
                found[name] = (capacity, weight)
        return found

    async def _start_client(self) -> None:
        """Start the client when the Gateway has an address."""
        gateways, key = self.view.objects[GATEWAYS], f"{NAMESPACE}/{self.name}-gateway"
        await self.view.until(lambda: key in gateways and bool(_address(gateways[key])))
        address, paths = _address(gateways[key]), list(self.routes.values())
        self.screen.change(f"this machine asks the Gateway: curl http://{address}{paths[0]}")
        self._process = await start_process(
            *(sys.executable, serve_client.__file__, address, str(_GATEWAY_PORT), *paths),
            stdout=asyncio.subprocess.PIPE,
            env=self.node.environment_of("client"),
        )
        self.tasks.create_task(self._read(self._process))

    async def _end_client(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Count what the client prints."""
        assert process.stdout is not None
        async for line in process.stdout:
            self.saw_line(line.decode())
