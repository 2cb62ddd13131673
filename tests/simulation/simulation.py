"""One seed: some minutes in which everything goes wrong, then peace.

When the faults have stopped, every cluster must become what it was last asked to be, and then
the operator must write nothing more and keep nothing in its ledger.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from controller.devcluster.nodes import NodeSettings
from controller.kube.faults import Lag, Rule
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import embedded_world, is_ready
from tests.simulation.referee import Referee
from tests.simulation.trouble import LONGEST_LAG, random_rule
from tests.simulation.user import User
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controller.runtime.operator import Operator
    from tests.integration.harness import RunningOperator, World

CONVERGENCE = 300.0
"""Seconds after the last fault until everything is as it should be."""

QUIET = 300.0
"""Seconds in which nothing may be written after that."""


@dataclass
class Simulation:
    """A world with a user, a referee, and an operator that has bad luck."""

    world: World
    rng: random.Random
    referee: Referee
    user: User
    overlapping: bool
    alive: list[tuple[RunningOperator, Wire]] = field(default_factory=list)
    ending: RunningOperator | None = None
    wires: list[Wire] = field(default_factory=list)
    started: int = 0
    weather: list[Rule] = field(default_factory=list)

    async def run(self) -> None:
        """All of it; what went wrong is in the referee's violations."""
        if self.rng.random() < 0.5:  # lag that lasts; anything else comes and goes
            self.weather = [Rule(Lag(self.rng.uniform(1.0, LONGEST_LAG)), "pods")]
        self.start()
        for name in self.user.names:
            await self.user.create(name)
        chaos = [asyncio.create_task(self._act()), asyncio.create_task(self._disturb())]
        chaos.append(asyncio.create_task(self._restart()))
        await asyncio.sleep(self.rng.choice([30.0, 60.0, 120.0]))
        for task in chaos:
            task.cancel()
        await asyncio.gather(*chaos, return_exceptions=True)
        await self._make_peace()
        await self._converge()
        await self._rest()

    def start(self) -> None:
        """Start an operator."""
        self.started += 1
        assert self.world.server is not None
        wire = Wire(self.world.server, f"operator-{self.started}", self.rng, self._witness)
        self.world.transport = wire
        operator = self.world.start_operator(rules=self.weather)
        self.wires.append(wire)
        self._listen(operator.operator)
        self.alive.append((operator, wire))
        self._say(f"start operator-{self.started}")

    def _listen(self, operator: Operator) -> None:
        """Have the referee know what this operator observes."""
        [kind] = [controller._kind for controller in operator.controllers.values()]
        observe = kind.observe

        def listening(key: str, reads: Any) -> Any:
            seen = observe(key, reads)
            if seen is not None:
                meta = seen.cluster.metadata
                self.referee.observed[meta.uid] = meta.generation
            return seen

        kind.observe = listening

    def _witness(self, method: str, path: str, body: bytes | None) -> None:
        """Tell the referee of pods that are made and deleted, before it happens."""
        if method == "POST" and path.endswith("/pods"):
            meta = msgspec.json.decode(body or b"")["metadata"]
            self.referee.sends_create(meta["name"], meta["ownerReferences"][0]["uid"])
        elif method == "DELETE" and "/pods/" in path:
            reads = self.alive[-1][0].operator.ledger.reads
            self.referee.sends_delete(path.rpartition("/")[2], reads)

    # -- chaos --------------------------------------------------------------------------------

    async def _act(self) -> None:
        pace = self.rng.choice([2.0, 8.0, 30.0])
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / pace))
            await self.user.act()

    async def _disturb(self) -> None:
        pace = self.rng.choice([2.0, 8.0, 30.0])
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / pace))
            rule = random_rule(self.rng)
            straggling = self.rng.choice([0.0, 0.0, 0.1, 0.3])
            if self.rng.random() < 0.1 and self.world.server is not None:
                self.world.server.store.compact()
            for operator, wire in self.alive:
                operator.transport.rules[:] = [*self.weather, *operator.transport.rules[-2:], rule]
                wire.straggling = straggling
            self._say(f"{rule.fault} {rule.resource} {sorted(rule.verbs)}; {straggling}")
            if self.rng.random() < 0.5:
                await asyncio.sleep(self.rng.uniform(1.0, 20.0))
                self._clear()

    async def _restart(self) -> None:
        pace = self.rng.choice([10.0, 40.0, 1000.0])
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / pace))
            how = self.rng.choice(["kill", "stop", "before", "after"])
            self._say(f"restart: {how}")
            if self.overlapping:
                self.start()
                await asyncio.sleep(self.rng.uniform(0.0, 8.0))
            operator, wire = self.alive.pop(0)
            self.ending = operator
            await self._end(operator, how)
            # A lease lasts longer than a request can be under way.
            await wire.arrived()
            if not self.overlapping:
                await asyncio.sleep(self.rng.choice([0.0, 0.5, 10.0]))
                self.start()

    async def _end(self, operator: RunningOperator, how: str) -> None:
        if how == "stop":
            await operator.stop()
            return
        if how != "kill":
            hooks = (
                operator.transport.on_request if how == "before" else operator.transport.on_answer
            )
            struck = asyncio.Event()

            def strike(entry: Any) -> None:
                if entry.attributes.writes:
                    operator.transport.sever()
                    struck.set()

            hooks.append(strike)
            with suppress(TimeoutError):
                async with asyncio.timeout(20.0):
                    await struck.wait()
        await operator.kill()

    # -- peace --------------------------------------------------------------------------------

    async def _make_peace(self) -> None:
        self._say("peace")
        self.weather = []
        self._clear()
        if self.ending is not None:
            await self.ending.kill()
        while len(self.alive) > 1:
            operator, _ = self.alive.pop(0)
            await operator.kill()
        if not self.alive:
            for wire in self.wires:
                await wire.arrived()
            self.start()

    def _clear(self) -> None:
        self._say("faults end")
        for operator, wire in self.alive:
            operator.transport.rules[:] = self.weather
            wire.straggling = 0.0

    async def _converge(self) -> None:
        deadline = self.world.loop.time() + CONVERGENCE
        while wrong := await self._wrong():
            if self.world.loop.time() > deadline:
                self.referee.violations.append(f"not reached within {CONVERGENCE} s: {wrong}")
                return
            await asyncio.sleep(1.0)
        self._say("converged")

    async def _rest(self) -> None:
        """Entries of the ledger may need half a minute; after that there is nothing to do."""
        operator, _ = self.alive[0]
        await asyncio.sleep(90.0)
        writes = len(operator.transport.journal.writes)
        await asyncio.sleep(QUIET)
        blame = self.referee.violations.append
        late = [
            (entry.attributes.verb, entry.attributes.resource, entry.attributes.name)
            for entry in operator.transport.journal.writes[writes:]
            if entry.attributes.resource != "events.events.k8s.io"  # a series of them may end
        ]
        if late:
            blame(f"written at rest: {late[:5]}")
        if wrong := await self._wrong():
            blame(f"did not stay: {wrong}")
        ledger = operator.operator.ledger
        seen = ledger.statistics()
        if seen.entries:
            entries = [e for o in ledger._overlays.all() for e in o.entries()]
            blame(f"left in the ledger: {entries[:3]}")
        names = {f"{self.world.namespace}/{name}" for name in await self._present()}
        for controller in operator.operator.controllers.values():
            if leaked := set(controller._uids) - names:
                blame(f"remembered of clusters that are gone: {leaked}")
        if not operator.running:
            blame("the operator has ended")

    async def _present(self) -> dict[str, dict[str, Any]]:
        listed = await self.world.user.list(RAYCLUSTERS, self.world.namespace)
        return {
            cluster.metadata.name: await self.world.user.get_raw(
                RAYCLUSTERS, self.world.namespace, cluster.metadata.name
            )
            for cluster in listed.items
        }

    async def _wrong(self) -> list[str]:
        """What is not yet as it was asked for."""
        wrong: list[str] = []
        expected: dict[str, int] = {}
        for name, cluster in (await self._present()).items():
            spec, status = cluster["spec"], cluster.get("status", {})
            uid = cluster["metadata"]["uid"]
            suspended = bool(spec.get("suspend"))
            state = "suspended" if suspended else "ready"
            if status.get("state") != state:
                wrong.append(f"{name} is {status.get('state')!r}")
            if status.get("observedGeneration") != cluster["metadata"]["generation"]:
                wrong.append(f"{name} observed {status.get('observedGeneration')}")
            ready = [c["status"] for c in status.get("conditions", []) if c["type"] == "Ready"]
            if not suspended and ready != ["True"]:
                wrong.append(f"{name} has Ready {status.get('conditions')}")
            for group in spec["workerGroupSpecs"]:
                idle = suspended or group.get("suspend")
                expected[f"{uid}/{group['groupName']}"] = 0 if idle else group["replicas"]
            expected[f"{uid}/head"] = 0 if suspended else 1
        found = dict.fromkeys(expected, 0)
        for pod in self.world.journal.present.values():
            labels = pod.metadata.labels or {}
            owner = pod.metadata.controller
            head = labels["ray.io/node-type"] == "head"
            key = f"{owner.uid if owner else ''}/{'head' if head else labels['ray.io/group']}"
            found[key] = found.get(key, 0) + 1
            if not is_ready(pod) or pod.metadata.terminating:
                wrong.append(f"pod {pod.metadata.name} is not ready")
        wrong += [
            f"{key}: {count} pods, not {expected.get(key, 0)}"
            for key, count in found.items()
            if count != expected.get(key, 0)
        ]
        return wrong

    def _say(self, what: str) -> None:
        self.user.say(what)


@asynccontextmanager
async def simulation(seed: int, *, overlapping: bool = False) -> AsyncIterator[Simulation]:
    """The simulation that follows from `seed`, not yet begun."""
    rng = random.Random(seed)
    nodes = NodeSettings(
        start_delay=rng.choice([0.1, 1.0, 5.0]),
        ready_delay=rng.choice([0.1, 1.0, 5.0]),
        termination_delay=rng.choice([0.1, 1.0, 20.0]),
    )
    collector_lag = Rule(Lag(rng.choice([0.0, 3.0, 20.0])), str(RAYCLUSTERS))
    async with embedded_world(seed=seed, nodes=nodes, node_rules=[collector_lag]) as world:
        assert world.server is not None
        referee = Referee(world.loop, strict=not overlapping)
        world.server.on_write.append(referee)
        names = ["a", "b", "c"][: rng.randint(1, 3)]
        yield Simulation(world, rng, referee, User(world, names, rng), overlapping)
