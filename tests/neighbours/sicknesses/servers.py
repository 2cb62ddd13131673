"""What happens to the API server or the operator, and so to everybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from controller.kube.resources import CRDS, NODES, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.testing.faults import (
    Cut,
    ErrorResponse,
    EventFault,
    Gone,
    Lag,
    Refused,
    RequestFault,
    Rule,
)
from tests.faults.restored import Backup
from tests.integration.definitions import drop_fields, restore_definition
from tests.integration.harness import install_crds
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import KAITO, UPGRADES, Course, Sickness

WRITES = ("create", "patch", "update", "delete")
FULL = ErrorResponse(500, message="etcdserver: mvcc: database space exceeded")
PAGE = ErrorResponse(502, message="<html><body><h1>502 Bad Gateway</h1></body></html>")


def for_all(fault: EventFault | RequestFault, resource: str = "", *verbs: str) -> Course:
    """The operator's requests or events in all namespaces suffer."""

    @contextmanager
    def course(sick: Tenant) -> Iterator[None]:
        with sick.street.ruled(Rule(fault, resource, frozenset(verbs))):
            sick.street.cut_watches()
            yield
        sick.street.cut_watches()

    return course


def wrong_clock(**error: float) -> Course:
    """The operator's time of day is wrong by so much."""

    @contextmanager
    def course(sick: Tenant) -> Iterator[None]:
        sick.street.clock_error = lambda now: now + timedelta(**error)
        yield
        sick.street.clock_error = lambda now: now

    return course


@asynccontextmanager
async def restarted(sick: Tenant) -> AsyncIterator[None]:
    """The operator is killed and another one starts."""
    await sick.street.restart_operator()
    yield


@asynccontextmanager
async def without_definition(sick: Tenant) -> AsyncIterator[None]:
    """Somebody deletes the definition of the kind, and all objects go; at the end it is back."""
    name = str(sick.column.resource)
    await sick.user.delete(CRDS, "", name)
    yield
    if sick.street.has_kaito:
        await sick.street.install_kaito()
    await install_crds(sick.world)
    await asyncio.sleep(5)


@asynccontextmanager
async def pruned_definition(sick: Tenant) -> AsyncIterator[None]:
    """Somebody installs a definition that lacks a field which the cluster uses."""
    for each in sick.objects(RAYCLUSTERS):
        hosts = [{"op": "add", "path": "/spec/workerGroupSpecs/0/numOfHosts", "value": 2}]
        await sick.user.json_patch(RAYCLUSTERS, sick.namespace, each["metadata"]["name"], hosts)
    await asyncio.sleep(20)
    specs = {each["metadata"]["name"]: each["spec"] for each in sick.objects(RAYCLUSTERS)}
    await drop_fields(sick.world, "spec.workerGroupSpecs.numOfHosts")
    yield
    await restore_definition(sick.world)
    for name, spec in specs.items():
        await sick.user.merge_patch(RAYCLUSTERS, sick.namespace, name, {"spec": spec})


def definition_without(resource: Resource[Any], field: str) -> Course:
    """Somebody installs a definition that lacks this field, and later the right one."""

    @asynccontextmanager
    async def course(sick: Tenant) -> AsyncIterator[None]:
        await drop_fields(sick.world, field, name=str(resource))
        yield
        await restore_definition(sick.world, name=str(resource))
        await asyncio.sleep(10)

    return course


@asynccontextmanager
async def restored_database(sick: Tenant) -> AsyncIterator[None]:
    """A backup that is older than the tenant's objects is put back a minute after them."""
    backup = Backup(sick.server)

    async def restore() -> None:
        await asyncio.sleep(60)
        backup.restore()
        await sick.street.operator.task
        await sick.street.restart_operator()  # as a kubelet does

    restoring = asyncio.create_task(restore())
    yield
    restoring.cancel()


@asynccontextmanager
async def lost_node(sick: Tenant) -> AsyncIterator[None]:
    """The only node no longer reports; then it is back."""

    async def lose(value: str | None) -> None:
        patch = {"metadata": {"annotations": {"sim.manta.dev/lost": value}}}
        await sick.user.merge_patch(NODES, "", "manta-node-0", patch)

    await lose("true")
    yield
    await lose(None)


SICKNESSES = (
    Sickness(
        name="410 in place of each event of one namespace",
        spares=UPGRADES,  # here and below: a plain RayCluster has the same watches
        course=lambda sick: sick.disturbed(Gone()),
        everywhere="all tenants' events come in the same stream",
    ),
    Sickness(
        name="watches break at each event of one namespace",
        spares=UPGRADES,
        course=lambda sick: sick.disturbed(Cut()),
        everywhere="all tenants' events come in the same stream",
    ),
    Sickness(
        name="watches of pods are silent",
        course=for_all(Lag(10_000), "pods"),
        spares=KAITO,  # they watch none
        everywhere="nobody hears of pods",
    ),
    Sickness(
        name="watches are 20 s late", course=for_all(Lag(20)), everywhere="everything is 20 s late"
    ),
    Sickness(
        name="nobody reaches the API server for a minute",
        course=for_all(Refused()),
        everywhere="no API server",
        lasts=60,
    ),
    Sickness(
        name="the API server answers 503 for ten minutes",
        course=for_all(ErrorResponse(503, "ServiceUnavailable")),
        everywhere="no API server",
    ),
    Sickness(
        name="the database is full",
        course=for_all(FULL, "", *WRITES),
        everywhere="nothing can be written",
    ),
    Sickness(
        name="a proxy answers all but watches with a page",
        course=for_all(PAGE, "", *WRITES, "get"),
        everywhere="nothing can be written",
    ),
    Sickness(name="the operator is killed", course=restarted, late=True, everywhere="it starts"),
    Sickness(name="the clock is 10 h ahead", course=wrong_clock(hours=10)),
    Sickness(
        name="the clock is 10 h behind",
        course=wrong_clock(hours=-10),
        everywhere="schedules follow the operator's clock",
    ),
    Sickness(
        name="the definition is deleted and created again",
        course=without_definition,
        late=True,
        everywhere="all objects are gone",
    ),
    Sickness(
        name="a definition that lacks numOfHosts",
        course=pruned_definition,
        late=True,
        only=frozenset({"RayCluster"}),  # here and below: the kind whose field it is
        spares=UPGRADES,  # they have the next row
        named="numOfHosts.*manta crds",
    ),
    Sickness(
        name="a definition that lacks numOfHosts during an update",
        course=pruned_definition,
        late=True,
        only=UPGRADES,
        everywhere="no update can tell how many hosts a replica has",
        named="numOfHosts.*manta crds",
    ),
    Sickness(
        name="a definition of RayJobs that lacks jobDeploymentStatus",
        course=definition_without(RAYJOBS, "status.jobDeploymentStatus"),
        late=True,
        only=frozenset({"RayJob", "RayCronJob"}),
        everywhere="no RayJob can be told from a new one",
        named="jobDeploymentStatus.*manta crds",
    ),
    Sickness(
        name="a definition of RayServices that lacks activeServiceStatus",
        course=definition_without(RAYSERVICES, "status.activeServiceStatus"),
        late=True,
        only=frozenset({"RayService"}),
        everywhere="no cluster of a RayService can be told from another one",
        named="activeServiceStatus.*manta crds",
    ),
    Sickness(
        name="a definition of RayCronJobs that lacks lastScheduleTime",
        course=definition_without(RAYCRONJOBS, "status.lastScheduleTime"),
        late=True,
        only=frozenset({"RayCronJob"}),
        everywhere="no tick can be told from one that was served",
        named="lastScheduleTime.*manta crds",
    ),
    Sickness(
        name="the database is restored from a backup",
        course=restored_database,
        everywhere="all watches are blind until bookmarks are missed",
        lasts=300,
    ),
    Sickness(
        name="the node is lost",
        course=lost_node,
        spares=KAITO,  # they have nodes of their own
        late=True,
        everywhere="it is the only node",
        named={"RayCluster": "NodeLost.*manta-node-0"},
    ),
)
