"""Pictures of upgrades for docs/upgrades.md: what the operator does to the pods of a cluster.

They are drawn from what happens on the embedded API server. After a change, run
`.venv/bin/python -m tests.docs.upgrade_pictures`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, labels
from controller.testing.virtual_time import VirtualLoop
from devcluster.apiserver.store import StoredEvent
from tests.integration.fleets import NEW, Fleets
from tests.integration.harness import embedded_world
from tests.integration.rayservices import Services, service_manifest, with_image
from tests.integration.rolling import RollingWorld, rolling_manifest

PAGE = Path(__file__).parents[2] / "docs" / "upgrades.md"
END = "<!-- end -->"
WORKERS = 3
_STATES = "#~.x"
_STEP = 0.5  # seconds
_SETTLED = 300.0  # seconds after which nothing more happens

Json = dict[str, Any]


@dataclass
class Film:
    """All states of the pods of a test, from an edit on.

    Attributes:
        old: uids of the pods that were there at the edit.
        states: the pods that were there, and the others: each state once, and how it was at the end
            of every half second.
    """

    table: ClassVar[str] = str(PODS)

    old: set[str] = field(default_factory=set)
    states: list[tuple[str, str]] = field(default_factory=list)
    _objects: dict[str, Json] = field(default_factory=dict)
    _until: float = 0.0

    def __call__(self, event: StoredEvent) -> None:
        if event.table != self.table:
            return
        body = event.current.object
        self._objects[body["metadata"]["uid"]] = body
        if event.type == "DELETED":
            del self._objects[body["metadata"]["uid"]]
        if self.old:
            self._take()

    def begin(self) -> None:
        """The edit comes now."""
        self.old = set(self._objects)
        self._take()

    def _take(self) -> None:
        state = self._shown(old=True), self._shown(old=False)
        now = asyncio.get_running_loop().time()
        if len(self.states) > 1 and now < self._until:
            self.states.pop()
        if not self.states or self.states[-1] != state:
            self.states.append(state)
            if now >= self._until:
                self._until = now + _STEP

    def _shown(self, *, old: bool) -> str:
        bodies = [body for uid, body in self._objects.items() if (uid in self.old) is old]
        return self.picture(bodies)

    def picture(self, bodies: list[Json]) -> str:
        """A head, and its workers beside it."""
        heads = [each for each in bodies if _role(each) == "head"]
        workers = [each for each in bodies if _role(each) == "worker"]
        return f"{_states(heads, 'Hhhx'):<3}{_states(workers)}"

    def text(self) -> str:
        lines = [f"{old:<9}| {new}".rstrip(" ") for old, new in self.states]
        return "\n".join(["```text", "before   | after", *lines, "```"])


class FilmOfClusters(Film):
    """The same for RayClusters."""

    table = str(RAYCLUSTERS)

    def picture(self, bodies: list[Json]) -> str:
        return _states(bodies)


def _states(bodies: list[Json], letters: str = _STATES) -> str:
    counts = Counter(_state(body) for body in bodies)
    return "".join(letter * counts[state] for letter, state in zip(letters, _STATES, strict=True))


def _role(body: Json) -> str:
    return body["metadata"]["labels"][labels.NODE_TYPE]


def _state(body: Json) -> str:
    meta = body["metadata"]
    if "deletionTimestamp" in meta:
        return "x"
    if labels.DRAINING_SINCE in (meta.get("annotations") or {}):
        return "~"
    conditions = (body.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return "#" if ready else "."


async def of_cluster(strategy: str) -> str:
    """An edit of all groups of a RayCluster."""
    manifest = rolling_manifest(WORKERS)
    manifest["spec"]["upgradeStrategy"] = {"type": strategy}
    async with embedded_world() as world:
        rolling, film = RollingWorld(world, manifest), Film()
        world.server.on_write.append(film)
        rolling.start_operator()
        await rolling.create()
        await asyncio.sleep(_SETTLED)
        film.begin()
        await rolling.edit("new")
        await asyncio.sleep(_SETTLED)
        return film.text()


async def of_service() -> str:
    """An edit of the cluster of a RayService."""
    manifest = service_manifest()
    for group in manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        group |= {"replicas": WORKERS, "minReplicas": WORKERS, "maxReplicas": WORKERS}
    async with embedded_world() as world:
        services, film = Services(world), Film()
        world.server.on_write.append(film)
        services.start_operator()
        await services.create(manifest)
        await asyncio.sleep(_SETTLED)
        film.begin()
        await services.edit(with_image(manifest, "rayproject/ray:2.60.1"))
        await asyncio.sleep(_SETTLED)
        return film.text()


async def of_fleet() -> str:
    """An edit of the template of a RayClusterFleet."""
    async with embedded_world() as world:
        fleets, film = Fleets(world), FilmOfClusters()
        world.server.on_write.append(film)
        fleets.start_operator()
        await fleets.create(replicas=WORKERS)
        await asyncio.sleep(_SETTLED)
        film.begin()
        await fleets.use(NEW)
        await asyncio.sleep(_SETTLED)
        return film.text()


PICTURES: dict[str, Callable[[], Coroutine[Any, Any, str]]] = {
    "none": lambda: of_cluster("None"),
    "recreate": lambda: of_cluster("Recreate"),
    "rolling": lambda: of_cluster("RollingUpdate"),
    "service": of_service,
    "fleet": of_fleet,
}
"""What draws each block of the page."""


def block(page: str, name: str) -> str:
    """What stands between `<!-- name -->` and the next `<!-- end -->`."""
    return _parts(page, name)[1].rstrip("\n")


def _parts(page: str, name: str) -> tuple[str, str, str]:
    """The page up to the block, the block, and the rest."""
    before, begin, rest = page.partition(f"<!-- {name} -->\n")
    text, end, after = rest.partition(END)
    return before + begin, text, end + after


def with_blocks(page: str, blocks: Mapping[str, str]) -> str:
    """The page with these texts in its blocks of these names."""
    for name, text in blocks.items():
        before, _, after = _parts(page, name)
        page = f"{before}{text}\n{after}"
    return page


def main() -> None:
    drawn: dict[str, str] = {}
    for name, draw in PICTURES.items():
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            drawn[name] = runner.run(draw())
    PAGE.write_text(with_blocks(PAGE.read_text(), drawn))


if __name__ == "__main__":
    main()
