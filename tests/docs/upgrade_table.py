"""The table of docs/upgrades.md that compares the ways of upgrades: words for what was played.

Each way is played on the embedded API server; what happened to pods and clusters chooses the words.
What tasks and actors do when their node stays, is drained or goes was measured with real Ray.
After a change, run `.venv/bin/python -m tests.docs.upgrade_table`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controller.kube.errors import StatusError
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.feature_gates import GATES
from controller.testing.virtual_time import VirtualLoop
from tests.docs.upgrade_pictures import PAGE, PICTURES, WORKERS, block, with_blocks
from tests.integration.fleets import NEW, OLD, Fleets
from tests.integration.harness import World, embedded_world
from tests.integration.rayservices import Services, service_manifest, with_image
from tests.integration.rolling import IMAGE, RollingWorld, rolling_manifest, set_variable

Json = dict[str, Any]
SETTLED: Final = 300.0
"""Seconds after which nothing more happens."""

OTHER_VERSION: Final = "rayproject/ray:2.61.0"


class Stage:
    """One way of upgrades in a world, as its user sees it.

    Attributes:
        units: resource of what is replaced as a whole.
    """

    units: Any = PODS

    def __init__(self, world: World) -> None:
        self.world = world

    async def create(self) -> None:
        """Create the object, and wait until it is ready."""
        raise NotImplementedError

    async def edit(self, edition: str) -> None:
        """Use the edition `old`, `new`, `head` (new for the head, too) or `other version`."""
        raise NotImplementedError

    async def is_half_way(self, before: set[str]) -> bool:
        """Whether a unit is gone, or whatever else may be taken back."""
        return bool(before - await self.uids())

    async def reason(self) -> str:
        """Why the upgrade does not go on; empty if it does, or is done."""
        raise NotImplementedError

    async def settle(self) -> None:
        """Wait until nothing more happens."""
        await asyncio.sleep(SETTLED)

    async def uids(self, role: str = "") -> set[str]:
        """The uids of the units that are not being deleted; of pods, those of this role."""
        resource = PODS if role else self.units
        found = await self.world.user.list(resource, self.world.namespace)
        return {
            each.metadata.uid
            for each in found.items
            if not each.metadata.terminating
            and (not role or (each.metadata.labels or {}).get(labels.NODE_TYPE) == role)
        }

    async def are_ready(self) -> bool:
        """Whether all clusters are ready."""
        clusters = await self.world.user.list(RAYCLUSTERS, self.world.namespace)
        return all(_is_ready(each.status) for each in clusters.items)


class ClusterStage(Stage):
    """A RayCluster with one of the strategies."""

    strategy = "None"
    fault_tolerant = True

    async def create(self) -> None:
        manifest = rolling_manifest(WORKERS, fault_tolerant=self.fault_tolerant)
        manifest["spec"]["upgradeStrategy"] = {"type": self.strategy}
        for group in (manifest["spec"]["headGroupSpec"], *manifest["spec"]["workerGroupSpecs"]):
            set_variable(group, "old")
        self.rolling = RollingWorld(self.world, manifest, refereed=False)
        self.rolling.start_operator()
        await self.rolling.create()

    async def edit(self, edition: str) -> None:
        spec = copy.deepcopy((await self.world.cluster()).spec)
        groups = list(spec["workerGroupSpecs"])
        if edition in {"head", "other version"}:
            groups.append(spec["headGroupSpec"])
        for group in groups:
            container = group["template"]["spec"]["containers"][0]
            container["image"] = OTHER_VERSION if edition == "other version" else IMAGE
            set_variable(group, "old" if edition == "old" else "new")
        await self.rolling.patch(spec)

    async def reason(self) -> str:
        condition = await self.rolling.condition()
        return condition["reason"] if condition.get("status") == "True" else ""


class RecreateStage(ClusterStage):
    """All pods at once."""

    strategy = "Recreate"

    async def is_half_way(self, before: set[str]) -> bool:
        """All pods are new and ready."""
        return not before & await self.uids() and await self.are_ready()


class RollingStage(ClusterStage):
    """One worker after the other."""

    strategy = "RollingUpdate"


class ServiceStage(Stage):
    """A RayService."""

    units = RAYCLUSTERS

    async def create(self) -> None:
        self.manifest = service_manifest()
        for group in self.manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
            group |= {"replicas": WORKERS, "minReplicas": WORKERS, "maxReplicas": WORKERS}
        self.services = Services(self.world)
        self.services.start_operator()
        await self.services.create(self.manifest)
        await self.settle()

    async def edit(self, edition: str) -> None:
        image = {"old": "", "other version": OTHER_VERSION}.get(edition, "rayproject/ray:2.60.1")
        edited = with_image(self.manifest, image) if image else self.manifest
        await self.services.edit(edited)

    async def is_half_way(self, before: set[str]) -> bool:
        """The second cluster is there."""
        return len(await self.uids()) > len(before)

    async def reason(self) -> str:
        return "" if await self.services.is_ready() else "not ready"


class FleetStage(Stage):
    """A RayClusterFleet."""

    units = RAYCLUSTERS

    async def create(self) -> None:
        self.fleets = Fleets(self.world)
        self.fleets.start_operator()
        await self.fleets.create(replicas=WORKERS)
        await self.settle()

    async def edit(self, edition: str) -> None:
        await self.fleets.use({"old": OLD, "other version": OTHER_VERSION}.get(edition, NEW))

    async def reason(self) -> str:
        status, reason, _ = await self.fleets.condition("Upgrading")
        return reason if status == "True" else ""


class Facts(NamedTuple):
    """What happens in one way of upgrades.

    Attributes:
        change: what a changed template leads to.
        peak: pods or clusters at the peak, beyond those before.
        lacking: ready workers, or clusters, that lack at the lowest point.
        workers: `kept`, `drained`, `deleted`, or `with their cluster`.
        head: `kept`, `last`, `deleted`, or `with its cluster`.
        version: what another version of Ray leads to.
        back: what the former template leads to.
        needs: what else it needs.
    """

    change: str
    peak: int
    lacking: int
    workers: str
    head: str
    version: str
    back: str
    needs: str


async def play(stage: type[Stage], act: Callable[[Stage, set[str]], Awaitable[str]]) -> str:
    """What an act comes to for an object that is ready; `before` are its units."""
    async with embedded_world() as world:
        played = stage(world)
        await played.create()
        await played.settle()
        return await act(played, await played.uids())


async def fate_of_head(stage: Stage, before: set[str]) -> str:
    """What becomes of the head when its template changes, too."""
    heads, workers = await stage.uids("head"), await stage.uids("worker")
    await stage.edit("head")
    for _ in range(int(SETTLED / 0.5)):
        await asyncio.sleep(0.5)
        if heads - await stage.uids("head"):
            break
    else:
        return "kept"
    if stage.units is RAYCLUSTERS:
        return "with its cluster"
    assert heads <= before
    left = workers & await stage.uids("worker")
    return "last" if not left and await stage.uids("worker") else "deleted"


async def another_version(stage: Stage, before: set[str]) -> str:
    """What another version of Ray leads to."""
    await stage.edit("other version")
    await stage.settle()
    after = await stage.uids()
    if not before & after and not await stage.reason():
        return "works"
    return await stage.reason()


async def way_back(stage: Stage, before: set[str]) -> str:
    """What the former template leads to in mid-upgrade."""
    await stage.edit("new")
    for _ in range(int(SETTLED / 0.5)):
        await asyncio.sleep(0.5)
        if await stage.is_half_way(before):
            break
    middle = await stage.uids()
    await stage.edit("old")
    await stage.settle()
    await stage.settle()
    after = await stage.uids()
    new = middle - before
    if not new:
        assert after == before
        return "nothing"
    assert await stage.are_ready()
    assert not new & after, "units of the new template stay"
    if before <= after:
        return "the new units go"
    assert before & middle <= after
    return "the replaced ones again" if before & after else "all again"


async def replaces_the_head_without_fault_tolerance(stage: Stage, before: set[str]) -> str:
    """Whether the head is replaced although all work ends with it."""
    await stage.edit("head")
    await stage.settle()
    return "refused" if await stage.reason() == "HeadNeedsFaultTolerance" else ""


async def service_without_applications(stage: Stage, before: set[str]) -> str:
    """Whether a RayService can do without Ray Serve."""
    assert isinstance(stage, ServiceStage)
    manifest = service_manifest("other", serveConfigV2="")
    try:
        await stage.services.create(manifest)
    except StatusError:
        return "refused"
    await stage.settle()
    return "" if await stage.services.is_ready("other") else "refused"


@dataclass(frozen=True)
class Way:
    """A column of the table."""

    picture: str
    title: str
    setting: str
    stage: type[Stage]


WAYS: Final = (
    Way("none", "`None`", "`upgradeStrategy` of a RayCluster", ClusterStage),
    Way("recreate", "`Recreate`", "the same", RecreateStage),
    Way("rolling", "`RollingUpdate`", "the same", RollingStage),
    Way("service", "RayService", "[a RayService](rayservice.md)", ServiceStage),
    Way("fleet", "RayClusterFleet", "[a fleet](fleet.md)", FleetStage),
)


async def facts_of(way: Way) -> Facts:
    """Play one way."""
    picture = await PICTURES[way.picture]()
    frames = [line.partition("|") for line in picture.splitlines()[2:-1]]
    both = [old + new for old, _, new in frames]
    pods = [sum(map(frame.count, "Hh#~.x")) for frame in both]
    ready = [frame.count("#") for frame in both]
    workers = _fate_of_workers(way, [old for old, _, _ in frames])
    return Facts(
        _change(way, frames),
        max(pods) - pods[0],
        ready[0] - min(ready),
        workers,
        await play(way.stage, fate_of_head),
        await play(way.stage, another_version),
        await play(way.stage, way_back),
        await _needs(way),
    )


def _change(way: Way, frames: list[tuple[str, str, str]]) -> str:
    """What a changed template leads to, by the picture."""
    old, new = [each[0] for each in frames], [each[2] for each in frames]
    if len(frames) == 1:
        return "nothing"
    together = [bool(a.strip()) and bool(b.strip()) for a, b in zip(old, new, strict=True)]
    if not any(together):
        return "all at once"
    steps = len({each.count("#") for each in old})
    if way.stage.units is PODS or steps > 2:
        return "one after the other"
    return "a second one"


def _fate_of_workers(way: Way, old: list[str]) -> str:
    if old[-1].count("#") == WORKERS:
        return "kept"
    if way.stage.units is RAYCLUSTERS:
        return "with their cluster"
    return "drained" if any("~" in frame for frame in old) else "deleted"


async def _needs(way: Way) -> str:
    if way.stage is FleetStage:
        return "" if GATES["RayClusterFleet"].default else "gate"
    if way.stage is ServiceStage:
        return "Serve" if await play(way.stage, service_without_applications) else ""
    bare = type("Bare", (way.stage,), {"fault_tolerant": False})
    return await play(bare, replaces_the_head_without_fault_tolerance)


CHANGE: Final[Mapping[tuple[str, bool], str]] = {
    ("nothing", True): "nothing: the condition names the outdated pods",
    ("all at once", True): "all pods at once being made anew",
    ("one after the other", True): "workers being replaced one after the other, the head last",
    ("a second one", False): "a second cluster, which takes over when it serves",
    ("one after the other", False): "one copy after the other being replaced",
}
PEAK: Final[Mapping[tuple[int, str], str]] = {
    (0, "kept"): "as before",
    (0, "deleted"): "as before",
    (1, "drained"): "+ `maxSurge` of a group",
    (1 + WORKERS, "with their cluster"): "twice as many, or + `maxSurgePercent`",
    (1, "with their cluster"): "+ `maxSurge` copies",
}
CAPACITY: Final[Mapping[tuple[int, str], str]] = {
    (0, "as before"): "all",
    (WORKERS, "as before"): "none",
    (0, "+ `maxSurge` of a group"): "all but `maxUnavailable`",
    (0, "twice as many, or + `maxSurgePercent`"): "all",
    (0, "+ `maxSurge` copies"): "all but `maxUnavailable` copies",
}
TASKS: Final = {
    "kept": "go on",
    "deleted": "end",
    "drained": "may finish until the deadline, then are retried if they may be",
    "with their cluster": "end with {}",
}
ACTORS: Final = {
    **TASKS,
    "drained": "killed at the deadline, then made again elsewhere if they may",
}
DRIVERS: Final = {
    "kept": "go on",
    "deleted": "end",
    "last": "go on, until the head is replaced",
    "with its cluster": "end with {}",
}
VERSION: Final = {
    "": "",
    "works": "works",
    "IncompatibleVersions": "`IncompatibleVersions`: use another way",
}
BACK: Final = {
    "nothing": "",
    "all again": "all pods once more",
    "the replaced ones again": "replaces what was replaced so far",
    "the new units go": "drops the new cluster",
}


def cells(way: Way, facts: Facts) -> list[str]:
    """A column of the table, from its title to what it needs."""
    name = "their copy" if way.stage is FleetStage else "the old cluster"
    peak = PEAK[facts.peak, facts.workers]
    capacity = CAPACITY[facts.lacking, peak]
    return [
        way.title,
        way.setting,
        CHANGE[facts.change, way.stage.units is PODS],
        peak,
        capacity,
        TASKS[facts.workers].format(name),
        ACTORS[facts.workers].format(name),
        DRIVERS[facts.head].format(name),
        VERSION[facts.version],
        BACK[facts.back],
        _words_of_needs(facts, capacity),
    ]


def _words_of_needs(facts: Facts, capacity: str) -> str:
    words = {
        "refused": "a head with GCS fault tolerance, if the head changes",
        "Serve": "Ray Serve",
        "gate": "the feature gate `RayClusterFleet`",
        "": "time without the cluster" if capacity == "none" else "nothing",
    }
    return words[facts.needs]


TITLES: Final = (
    "",
    "Set in",
    "A changed template leads to",
    "Pods at the peak",
    "Capacity meanwhile",
    "Running tasks",
    "Actors",
    "The driver of a job, detached actors on the head",
    "Another version of Ray or Python",
    "Back to the former template",
    "Needs",
)


def column(page: str, position: int) -> list[str]:
    """A column of the table as the page has it; 0 are the titles."""
    lines = block(page, "ways").splitlines()
    return [line.split("|")[1 + position].strip() for line in (lines[0], *lines[2:])]


def table(columns: list[list[str]]) -> str:
    """The table of these columns, as Markdown."""
    first, *rows = zip(TITLES, *columns, strict=True)
    lines = [_line(first), "|" + "---|" * len(first), *map(_line, rows)]
    return "\n".join(lines)


def _line(line: tuple[str, ...]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in line)


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def main() -> None:
    """Play all ways, and write the table into the page."""
    columns: list[list[str]] = []
    for way in WAYS:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            columns.append(cells(way, runner.run(facts_of(way))))
    PAGE.write_text(with_blocks(PAGE.read_text(), {"ways": table(columns)}))


if __name__ == "__main__":
    main()
