"""Plays a scenario: some minutes in which everything goes wrong, then peace.

When the faults have stopped, every cluster must become what it was last asked to be, every job
must come to its end, every service must serve what it was last told to, and then the operator must
write nothing more and keep no expectation.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.runtime.kind import Kind
from controller.testing.faults import JournalEntry, Lag, Rule
from controller.testing.virtual_time import VirtualLoop
from devcluster.apiserver.store import StoredEvent
from devcluster.nodes import COMPONENTS, NodeSettings
from tests.integration.harness import RunningOperator, World, embedded_world
from tests.simulation.autoscaler import Autoscaler
from tests.simulation.crons import CronsOfLife
from tests.simulation.disruptions import DisruptionsOfLife, is_marked
from tests.simulation.effort import Effort
from tests.simulation.faults import rules_for
from tests.simulation.idle import IdleOfLife
from tests.simulation.job_outcome import keeps_no_head
from tests.simulation.memory import NOTICED
from tests.simulation.nodes import NodesOfLife
from tests.simulation.operators import WitnessedKind
from tests.simulation.orders import Orders
from tests.simulation.others import Others
from tests.simulation.outcome import contested, shortcomings
from tests.simulation.processes import Process, candidate_of, delete_lease, free_lease, lapses
from tests.simulation.rays import JobsOfLife
from tests.simulation.referee import Referee
from tests.simulation.rolling import RollingOfLife
from tests.simulation.scenario import (
    AnyAction,
    ClockJump,
    Compact,
    Create,
    CreateCronJob,
    CreateJob,
    CreateRayService,
    CreateWorkspace,
    CronAction,
    DeleteLease,
    Fault,
    LoseRayJobs,
    LoseServe,
    OneSided,
    Prune,
    RayFault,
    Restart,
    RestoreDatabase,
    Rival,
    Scenario,
    Use,
    Webhook,
    WorkspaceAction,
)
from tests.simulation.services import ServicesOfLife
from tests.simulation.user import NODE_COUNT, User
from tests.simulation.wire import Wire
from tests.simulation.workspaces import WorkspacesOfLife

REPAIRING = (RAYCLUSTERS, RAYJOBS, RAYSERVICES)
"""Kinds whose children rivals change."""

CONVERGENCE = 600.0
"""Seconds after the last fault until everything is as it should be. Pods that were lost again
and again are replaced after five minutes at the latest."""

CONVERGENCE_WITH_RAY = 1200.0
"""The same for scenarios with jobs: three attempts, each with a time limit that it may reach.
And for those with services, whose clusters are replaced one after the other."""

SETTLING = 90.0
"""Seconds that expectations may still need after that."""

QUIET = 120.0
"""Seconds in which nothing may be written after that."""

STRIKE = 20.0
"""Seconds that a kill waits for a write to strike at."""

AUTOSCALING_INTERVAL = 2.0
"""Seconds between two rounds of an autoscaler."""

IDLE_TIMEOUT = 10.0
"""Seconds until an autoscaler gives up a worker that the load does not need."""


class Weather(msgspec.Struct, frozen=True, eq=False):
    """A fault that lasts.

    Attributes:
        rules: those of the transports that have it.
        process: which one has it; None if all.
    """

    fault: Fault | Webhook
    rules: list[Rule]
    process: Process | None = None


class Result(msgspec.Struct, frozen=True):
    """What became of a scenario.

    Attributes:
        violations: what the referee saw and what was wrong at the end, as sentences.
        story: what was done and when, for the report of a failure.
        digest: of all transitions with their times: equal digests mean equal lives.
        two_heads: the longest stretch of seconds in which a cluster had two live heads.
    """

    violations: tuple[str, ...]
    story: tuple[str, ...]
    transitions: int
    digest: str
    two_heads: float = 0.0


@dataclass
class Simulation:
    """A world with a user, a referee, and an operator that has bad luck.

    Attributes:
        overlapping: seconds for which the next operator runs beside the old one at a restart.
    """

    world: World
    scenario: Scenario
    referee: Referee
    overlapping: float = 0.0
    story: list[str] = field(default_factory=list)
    _alive: list[Process] = field(default_factory=list)
    _ending: Process | None = None
    _started: int = 0
    _weather: list[Weather] = field(default_factory=list)
    _autoscalers: dict[str, Autoscaler] = field(default_factory=dict)
    _transitions: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        self.user = User(self.world)
        self.others = Others(self.world, self.referee, self.user.busy)
        rounds = 3 if self.scenario.surroundings.past else 1
        self._revisions: deque[int] = deque(maxlen=rounds)  # autoscalers see the oldest
        self.rays: list[JobsOfLife | ServicesOfLife | WorkspacesOfLife | CronsOfLife] = []
        self.workspaces = WorkspacesOfLife(self.world, self.referee.violations)
        if self.scenario.has_workspaces:
            self.rays.append(self.workspaces)
        steady = self.scenario.has_steady_clocks
        self.crons = CronsOfLife(self.world, self.referee.violations, steady=steady)
        if self.scenario.has_crons:
            self.rays.append(self.crons)
        self.rolling = (
            RollingOfLife(self.world, self.scenario) if self.scenario.has_rolling else None
        )
        if self.scenario.has_idle:
            life = DisruptionsOfLife if self.scenario.surroundings.scheduling else IdleOfLife
            self.rolling = life(self.world, self.scenario, self.referee.violations)
        if self.scenario.has_jobs:
            strict = not self.overlapping
            calm, blame = self.scenario.is_calm, self.referee.violations
            self.rays.append(
                JobsOfLife(self.world, self.user.jobs, blame, strict=strict, calm=calm)
            )
        if self.scenario.has_services:
            self.rays.append(
                ServicesOfLife(
                    self.world,
                    self.user.lost,
                    self.referee.violations,
                    gateway=self.scenario.has_gateway,
                )
            )

        self._all_rays = [*self.rays, *([self.rolling] if self.rolling else [])]

    async def run(self) -> Result:
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._scale()), tasks.create_task(self._revive())]
            try:
                await self._play(tasks)
                await self._make_peace()
                await self._converge()
                await self._rest()
            finally:
                for each in beside:
                    each.cancel()
        return Result(
            tuple(self.referee.violations),
            tuple(self.story),
            self._transitions,
            self._digest.hexdigest(),
            self.referee.two_heads,
        )

    def write_down(self, event: StoredEvent) -> None:
        """Add a transition to the digest, and tell who keeps other books."""
        for rays in self._all_rays:
            rays.saw(event)
        self._transitions += 1
        when = f"{self.world.loop.time():.6f} {event.type} {event.table} {event.key} "
        self._digest.update(when.encode())
        self._digest.update(msgspec.json.encode(event.current.object, order="sorted"))

    # -- war ----------------------------------------------------------------------------------

    async def _play(self, tasks: asyncio.TaskGroup) -> None:
        await self._settle_in()
        restarts: list[asyncio.Task[None]] = []
        for step in self.scenario.steps:
            await asyncio.sleep(step.delay)
            match step.action:
                case Fault() | Webhook() | OneSided():
                    self._begin(step.action)
                case Rival() | Prune() | RestoreDatabase() | ClockJump():
                    self._say(f"{step.action}")
                    self.others.begin(step.action, tasks)
                case RayFault() | LoseRayJobs() | LoseServe():
                    self._say(f"{step.action}")
                    for rays in self._all_rays:
                        rays.act(step.action)
                case Use() if isinstance(self.rolling, IdleOfLife):
                    self._say(f"{step.action}")
                    self.rolling.use(step.action)
                case Compact():
                    self._say("compact")
                    assert self.world.server is not None
                    self.world.server.store.compact()
                case Restart():
                    if all(task.done() for task in restarts):
                        restarts.append(tasks.create_task(self._restart(step.action)))
                case _:
                    await self._act(step.action)
        await asyncio.gather(*restarts)
        await asyncio.sleep(max((each.fault.lasts for each in self._weather), default=0.0))
        await self.others.over()

    async def _settle_in(self) -> None:
        for rays in self.rays:
            await rays.open()
        if self.scenario.elected:
            await free_lease(self.world)
            self._start()
        self._start()
        for number, body in enumerate(self.scenario.clusters):
            await self._act(Create(number, body))
        for number, job in enumerate(self.scenario.jobs):
            await self._act(CreateJob(number, job))
        for number, service in enumerate(self.scenario.services):
            await self._act(CreateRayService(number, service))
        for number, workspace in enumerate(self.scenario.workspaces):
            await self._act(CreateWorkspace(number, workspace))
        for number, cron in enumerate(self.scenario.crons):
            await self._act(CreateCronJob(number, cron))

    async def _act(self, action: AnyAction) -> None:
        if isinstance(action, WorkspaceAction):
            refusal = await self.workspaces.do(action)
        elif isinstance(action, CronAction):
            refusal = await self.crons.do(action)
        elif isinstance(action, DeleteLease):
            refusal = await delete_lease(self.world)
        else:
            refusal = await self.user.act(action)
        self._say(f"{action} {refusal and f'... {refusal}'}")

    def _begin(self, fault: Fault | Webhook | OneSided) -> None:
        self._say(f"{fault}")
        process = None
        if isinstance(fault, OneSided):
            leads, fault = fault.of == "leader", fault.fault
            process = next((each for each in self._alive if each.leads is leads), None)
        weather = Weather(fault, rules_for(fault), process)
        self._weather.append(weather)
        self._apply_weather()
        self.world.loop.call_later(fault.lasts, self._end, weather)

    def _end(self, weather: Weather) -> None:
        if weather in self._weather:
            self._weather.remove(weather)
            self._apply_weather()

    def _apply_weather(self) -> None:
        for process in self._alive:
            weather = [each for each in self._weather if each.process in {None, process}]
            rules = _without_lesser_lags([rule for each in weather for rule in each.rules])
            process.operator.transport.rules[:] = rules
            if process.candidate is not None:
                process.candidate.transport.rules[:] = rules
            faults = [each.fault for each in weather if isinstance(each.fault, Fault)]
            wire = process.wire
            wire.stragglers = [(f.every, f.seconds) for f in faults if f.kind == "straggling"]
            wire.rewound = any(fault.kind == "rewound" for fault in faults)

    # -- operators ----------------------------------------------------------------------------

    def _start(self) -> None:
        assert self.world.server is not None
        self._started += 1
        name = f"operator-{self._started}"
        around = self.scenario.surroundings
        wire = Wire(self.world.server, name, past=around.past, streaming=around.streaming)
        actors = self.rolling and self.rolling.for_operator(self.others.wall)
        kind = WitnessedKind(self.referee, actors, watch_nodes=around.scheduling)
        kinds: list[Kind[Any]] = [kind]
        kinds += [rays.kind(self.others.wall) for rays in self.rays]
        candidate = candidate_of(self.world, name, wire) if self.scenario.elected else None
        if candidate is not None:
            candidate.elector.memory = kind.memory
        operator = self.world.start_operator(
            transport=wire,
            kinds=kinds,
            wall=self.others.wall,
            election=candidate and candidate.elector,
        )
        orders = Orders(self.world.loop, self.referee.violations)
        for each in kinds:
            orders.witness(each)
        operator.transport.on_request.append(orders)
        operator.transport.on_answer.append(kind.memory.answered)
        operator.transport.on_answer.append(Effort(self.world.loop, self.referee.violations))
        process = Process(operator, wire, candidate)
        operator.transport.on_request.append(lambda entry: self._check_write(process, entry))
        self._alive.append(process)
        self._apply_weather()
        self._say(f"start {name}")

    def _check_write(self, process: Process, entry: JournalEntry) -> None:
        wrong = lapses(process, entry, self._alive)
        self.referee.violations += [f"{self.world.loop.time():.3f} s: {each}" for each in wrong]

    async def _revive(self) -> None:
        """Start another process for each that has ended.

        It does so when it does not lead any more, or when the database was restored.
        """
        while self.scenario.elected or self.scenario.has_restores:
            await asyncio.sleep(1.0)
            for process in list(self._alive):
                if not process.operator.running and process is not self._ending:
                    self._alive.remove(process)
                    self._start()

    async def _restart(self, restart: Restart) -> None:
        self._say(f"{restart}")
        if self.overlapping:
            self._start()
            await asyncio.sleep(self.overlapping)
        process = next((each for each in self._alive if each.leads), self._alive[0])
        self._ending = process
        await self._end_operator(process.operator, restart.how)
        self._alive.remove(process)
        self._ending = None
        # A lease lasts longer than a request can be under way.
        await process.wire.arrived()
        if not self.overlapping:
            await asyncio.sleep(restart.pause)
            if not restart.marks:
                await self.user.take_marks_off()
            self._start()

    async def _end_operator(self, operator: RunningOperator, how: str) -> None:
        if how == "stop":
            await operator.stop()
            return
        if how != "kill":
            transport = operator.transport
            hooks = transport.on_request if how == "before" else transport.on_answer
            struck = asyncio.Event()

            def strike(entry: Any) -> None:
                if entry.attributes.writes:
                    transport.sever()
                    struck.set()

            hooks.append(strike)
            with suppress(TimeoutError):
                async with asyncio.timeout(STRIKE):
                    await struck.wait()
        await operator.kill()

    # -- autoscalers --------------------------------------------------------------------------

    async def _scale(self) -> None:
        """One autoscaler runs in each head that is alive, and ends with it."""
        assert self.world.server is not None
        while True:
            await asyncio.sleep(AUTOSCALING_INTERVAL)
            self._revisions.append(self.world.server.store.revision)
            heads = {
                pod.uid: pod.cluster
                for pod in self.referee.pods.values()
                if pod.head and pod.live and not pod.dead
            }
            for uid in self._autoscalers.keys() - heads.keys():
                self._autoscaler_ends(uid)
            for uid, name in heads.items():
                cluster = self._spec(name)
                if not cluster.get("enableInTreeAutoscaling"):
                    continue
                if uid not in self._autoscalers:
                    self._autoscalers[uid] = self._autoscaler(name, cluster)
                await self._autoscalers[uid].update()

    def _autoscaler(self, name: str, spec: Mapping[str, Any]) -> Autoscaler:
        return Autoscaler(
            self.world.client(f"autoscaler-{name}"),
            self.world.namespace,
            name,
            version=spec.get("autoscalerOptions", {}).get("version", "v2"),
            demand=self.user.demand.get(name, {}),
            idle_timeout=IDLE_TIMEOUT,
            revision=lambda: str(self._revisions[0]),
        )

    def _autoscaler_ends(self, uid: str) -> None:
        for name in set(self._autoscalers.pop(uid).returned) - self.referee.replaced:
            self.referee.violations.append(f"the autoscaler had seen {name} die, and it came back")

    def _spec(self, name: str) -> Mapping[str, Any]:
        assert self.world.server is not None
        table = self.world.server.store.table(str(RAYCLUSTERS))
        item = table.items.get(f"{self.world.namespace}/{name}")
        return item.object["spec"] if item else {}

    # -- peace --------------------------------------------------------------------------------

    async def _make_peace(self) -> None:
        self._say("peace")
        self._weather.clear()
        self._apply_weather()
        for rays in self._all_rays:
            rays.make_peace()
        while len(self._alive) > 1:
            process = self._alive.pop(0)
            await process.operator.kill()
            await process.wire.arrived()
        await self.user.heal()
        if self.rolling is not None:
            await self.user.let_upgrades_end()

    async def _converge(self) -> None:
        if self.scenario.has_restores:  # what is right may change when it is noticed
            await asyncio.sleep(NOTICED)
        limit = CONVERGENCE_WITH_RAY if self._all_rays else CONVERGENCE
        deadline = self.world.loop.time() + limit
        while wrong := self._shortcomings():
            if self.world.loop.time() > deadline:
                self.referee.violations.append(f"not reached within {limit} s: {wrong}")
                return
            if self.scenario.may_hold_deletions:  # else nothing is held
                await self.user.delete_what_is_held()
            await asyncio.sleep(1.0)
        self._say("converged")

    async def _rest(self) -> None:
        """Expectations may need half a minute; after that there is nothing to do."""
        operator = self._alive[0].operator
        await asyncio.sleep(SETTLING)
        await self._let_disputes_be_forgotten()
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
        if wrong := self._shortcomings():
            blame(f"did not stay: {wrong}")
        for uid in list(self._autoscalers):
            self._autoscaler_ends(uid)
        self._look_for_leaks(operator)

    async def _let_disputes_be_forgotten(self) -> None:
        """Wait while a status tells of another writer: one that was refused tells of it late."""
        for _ in range(int(CONVERGENCE)):
            if not self._disputes():
                return
            await asyncio.sleep(1.0)

    def _look_for_leaks(self, operator: RunningOperator) -> None:
        blame = self.referee.violations.append
        expectations = operator.operator.expectations
        if entries := expectations.all():
            blame(f"left expectations: {entries[:3]}")
        for controller in operator.operator.controllers.values():
            left = self._objects(str(controller._kind.primary))
            names = {f"{self.world.namespace}/{each['metadata']['name']}" for each in left}
            if leaked := set(controller._owners) - names:
                blame(f"{controller.name} remembers what is gone: {leaked}")
        for rays in self._all_rays:
            self.referee.violations.extend(rays.leaks())
        if not operator.running:
            blame("the operator has ended")

    def _shortcomings(self) -> list[str]:
        wrong = [each for rays in self.rays for each in rays.shortcomings(self._objects)]
        if isinstance(self.rolling, IdleOfLife):
            wrong += self.rolling.shortcomings(self._objects)
        if wrong:
            return wrong
        clusters, pods = self._objects(str(RAYCLUSTERS)), self._objects("pods")
        if self.scenario.has_jobs:  # where no head comes back, the pods are as they are
            left = {each["metadata"]["uid"] for each in clusters if keeps_no_head(each)}
            clusters = [each for each in clusters if each["metadata"]["uid"] not in left]
            pods = [pod for pod in pods if not left & _owners(pod)]
        wrong = shortcomings(clusters, pods, self._objects("services"))
        if self.rolling is None:  # nobody asks Ray whether a worker that was marked is drained
            marked = [pod["metadata"]["name"] for pod in pods if is_marked(pod)]
            excused = {f"pod {name} is still draining" for name in marked}
            wrong = [each for each in wrong if each not in excused]
        return wrong or self._disputes()

    def _disputes(self) -> list[str]:
        return [each for kind in REPAIRING for each in contested(self._objects(str(kind)))]

    def _objects(self, table: str) -> list[dict[str, Any]]:
        assert self.world.server is not None
        return [item.object for _, item in self.world.server.store.table(table).now()]

    def _say(self, what: str) -> None:
        self.story.append(f"{self.world.loop.time():8.3f} s  {what}")


def _without_lesser_lags(rules: list[Rule]) -> list[Rule]:
    """The rules, but of lags of one resource only the longest.

    Several would add up to more than the two minutes after which an operator gives up by design.
    """
    longest: dict[str, Rule] = {}
    for rule in rules:
        if isinstance(rule.fault, Lag):
            present = longest.get(rule.resource)
            if present is None or _lag(present) < _lag(rule):
                longest[rule.resource] = rule
    return [r for r in rules if not isinstance(r.fault, Lag) or longest[r.resource] is r]


def _lag(rule: Rule) -> float:
    return rule.fault.seconds if isinstance(rule.fault, Lag) else 0.0


def _owners(pod: dict[str, Any]) -> set[str]:
    return {each["uid"] for each in pod["metadata"].get("ownerReferences", ())}


@asynccontextmanager
async def simulation(scenario: Scenario, *, overlapping: float = 0.0) -> AsyncIterator[Simulation]:
    """The simulation of a scenario, not yet begun."""
    around = scenario.surroundings
    nodes = NodeSettings(
        nodes=NODE_COUNT,
        start_delay=around.start,
        ready_delay=around.ready,
        termination_delay=around.termination,
        eviction_delay=around.eviction,
        crash_back_off=1.0,
        crash_back_off_cap=10.0,
        scheduling=around.scheduling,
    )
    rules = [Rule(Lag(around.collector_lag), str(RAYCLUSTERS))]
    of_world = frozenset[str]() if scenario.has_restores else COMPONENTS
    async with embedded_world(
        seed=around.seed, nodes=nodes, node_rules=rules, components=of_world
    ) as world:
        assert world.server is not None
        referee = Referee(world.loop, strict=not overlapping)
        played = Simulation(world, scenario, referee, overlapping)
        world.server.on_write.extend([referee, played.write_down])
        if scenario.has_restores:
            played.others.nodes = NodesOfLife(world, nodes, rules)
            await played.others.nodes.start()
        yield played
        if scenario.has_restores:
            await played.others.nodes.stop()


def play(scenario: Scenario, *, overlapping: float = 0.0) -> Result:
    """Play a scenario on an event loop of its own, in virtual time."""

    async def life() -> Result:
        async with simulation(scenario, overlapping=overlapping) as played:
            return await played.run()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(life())
