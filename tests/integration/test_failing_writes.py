"""A write that fails for ever, whatever its verb: it is named, costs little, and recovers.

Most creates are in `test_failing_keys`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Struct

from controller.apimachinery.ownership import owner_reference
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import CONTROLLER_REVISIONS, SERVICES, STATEFUL_SETS, Resource
from controller.ray.api import RAYCLUSTERS, FeatureGates, labels
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.testing.faults import DelayedRequest, ErrorResponse, Rule
from tests.integration.fleets import NEW, Fleets
from tests.integration.harness import RunningOperator, World, install_crds
from tests.integration.inferencesets import InferenceSets
from tests.integration.rays import Rays, forever
from tests.integration.rayservices import Services, serve_config, service_manifest, with_image
from tests.integration.rolling import RollingWorld, rolling_manifest
from tests.integration.test_all_kinds import cron_job, start
from tests.integration.test_failing_keys import MOST, SORTS, TEN_MINUTES, TRACE, requests
from tests.integration.turns import in_turn
from tests.integration.workspaces import Workspaces, provisioned
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

WORDS = {
    "forbidden": "not by policy",
    "invalid": "Invalid value",
    "failing": "etcd said no",
    "overloaded": "try again",
    "timeout": "request timed out",
    "lost": "connection reset",
    "silent": "no complete answer",
    "busy": "later",
    "conflict": "",  # a conflict is quiet
}
FAULTS = SORTS | {
    "timeout": ErrorResponse(504, "Timeout", f"request timed out, {TRACE}"),
    "silent": DelayedRequest(1e6),
    "busy": ErrorResponse(429, "TooManyRequests", f"later, {TRACE}", retry_after=1),
    "conflict": ErrorResponse(409, "Conflict", f"the object has been modified, {TRACE}"),
}
CLUSTERS = str(RAYCLUSTERS)
CREATE, PATCH, DELETE = frozenset({"create"}), frozenset({"patch", "update"}), frozenset({"delete"})
MAIN = ("forbidden", "failing", "busy", "conflict")
"""What writes are answered in turn; a few are answered everything."""


async def a_cluster(world: World) -> RunningOperator:
    operator = world.start_operator()
    await world.create_cluster("it")
    await world.eventually(lambda: world.is_ready("it"), seconds=60)
    return operator


async def jobs(world: World, course: Course) -> RunningOperator:
    rays = Rays(world)
    await rays.open()
    rays.ray.course = lambda _: course
    return start(rays, FeatureGates({"RayCronJob": True}))


async def a_job(world: World) -> RunningOperator:
    """One whose cluster is deleted a minute after its start."""
    operator = await jobs(world, Course(running=30))
    spec = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 5}
    body = Rays.manifest("it", **spec)
    await world.user.create(RAYJOBS, world.namespace, body)
    await world.settle(15)
    return operator


async def a_running_job(world: World) -> RunningOperator:
    operator = await jobs(world, forever())
    await world.user.create(RAYJOBS, world.namespace, Rays.manifest("it"))
    await world.settle(15)
    return operator


async def a_cron_job(world: World) -> RunningOperator:
    """With two jobs that have ended; the next one is due in months."""
    operator = await jobs(world, Course(running=5))
    body = cron_job("it", "*/5 * * * *")
    body["spec"]["jobTemplate"]["shutdownAfterJobFinishes"] = True
    await world.user.create(RAYCRONJOBS, world.namespace, body)
    await world.settle(660)
    await edit_cron_job(world, schedule="0 0 1 7 *")
    await world.settle(60)
    return operator


async def a_service(world: World) -> RunningOperator:
    services = Services(world)
    operator = services.start_operator()
    await services.create(service_manifest("it", rayClusterDeletionDelaySeconds=1))
    await services.reaches(lambda s: s.get("serviceStatus") == "Running", "it")
    return operator


async def a_fleet(world: World) -> RunningOperator:
    fleets = Fleets(world)
    operator = fleets.start_operator()
    await fleets.create("it", 2)
    await world.becomes(
        lambda: fleets.condition("Ready", "it"), lambda found: found[0] == "True", seconds=120
    )
    return operator


async def a_rolling_cluster(world: World) -> RunningOperator:
    rolling = RollingWorld(world, rolling_manifest(2), refereed=False)
    operator = rolling.start_operator()
    await rolling.create()
    return operator


async def an_upgraded_cluster(world: World) -> RunningOperator:
    operator = await a_rolling_cluster(world)
    await new_template(world)
    await world.settle(5)
    await world.eventually(lambda: has_upgraded(world), seconds=600, pause=5)
    return operator


async def has_upgraded(world: World) -> bool:
    cluster = await world.cluster()
    conditions = {each["type"]: each["reason"] for each in cluster.status["conditions"]}
    seen = cluster.status["observedGeneration"] == cluster.metadata.generation
    return seen and conditions["Upgrading"] == "Complete"


async def a_set(world: World) -> RunningOperator:
    await install_crds(world, *kaito_definitions())
    sets = InferenceSets(world)
    world.background(sets.serve())
    operator = sets.start_operator()
    await sets.create("it")
    await world.becomes(lambda: sets.condition("it"), lambda found: found[0] == "True", seconds=120)
    return operator


async def a_workspace(world: World) -> RunningOperator:
    spaces = Workspaces(world)
    await spaces.install()
    world.background(provisioned(spaces))
    operator = spaces.start_operator()
    await spaces.create("it")
    await spaces.reaches("WorkspaceSucceeded", "True", "workspaceSucceeded", "it")
    return operator


async def aim_elsewhere(world: World) -> None:
    """As a user does who edits a Service by hand."""
    patch = {"spec": {"selector": {"ray.io/cluster": "elsewhere"}}}
    await world.user.merge_patch(SERVICES, world.namespace, "it-head-svc", patch)


def other_image() -> dict[str, Any]:
    return {"spec": with_image(service_manifest("it"), "rayproject/ray:2.53.0")["spec"]}


def other_adapter() -> dict[str, Any]:
    adapter = {"source": {"name": "a", "image": "example.com/a:1"}}
    return {"inference": {"adapters": [adapter]}}


async def shrink(world: World) -> None:
    await world.scale(0, "it")


async def wait(world: World) -> None:
    await world.settle(60)


async def delete_job(world: World) -> None:
    await world.user.delete(RAYJOBS, world.namespace, "it")


async def edit_cron_job(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCRONJOBS, world.namespace, "it", {"spec": spec})


async def replace_clusters(world: World) -> None:
    await Fleets(world).use(NEW, "it")


async def delete_workspace(world: World) -> None:
    await Workspaces(world).delete("it")


async def delete_server(world: World) -> None:
    await world.user.delete(STATEFUL_SETS, world.namespace, "it")


async def new_template(world: World, value: str = "new") -> None:
    path = "/spec/workerGroupSpecs/0/template/spec/containers/0/env"
    patch = [{"op": "add", "path": path, "value": [{"name": "EDIT", "value": value}]}]
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", patch)


async def replaced_pods(world: World) -> None:
    await new_template(world)
    await world.settle(120)


async def former_template(world: World) -> None:
    path = "/spec/workerGroupSpecs/0/template/spec/containers/0/env"
    patch = [{"op": "remove", "path": path}]
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", patch)
    await world.settle(120)  # its pods are replaced


async def keep_many_revisions(world: World) -> None:
    """As if there had been twelve other templates."""
    cluster = await world.cluster()
    for number in range(12):
        metadata = {
            "name": f"example-{number}",
            "labels": {labels.CLUSTER: "example"},
            "ownerReferences": [owner_reference(RAYCLUSTERS, cluster.metadata)],
        }
        body: dict[str, Any] = {"metadata": metadata, "data": {"spec": {}}, "revision": 0}
        await world.user.create(CONTROLLER_REVISIONS, world.namespace, body)


class Row(Struct, frozen=True):
    """A write that fails.

    Attributes:
        kind: whose it is.
        begin: what there is before.
        provoke: makes the write due; or an edit of the object, as a merge patch.
        name: of the object of this kind, and how the names of all others begin.
        told_by: what names the failure; events if the object's own status cannot be written.
            Empty if nobody has to be told.
    """

    kind: Resource[Any]
    begin: Callable[[World], Awaitable[RunningOperator]]
    provoke: Callable[[World], Awaitable[None]] | dict[str, Any]
    resource: str
    verbs: frozenset[str]
    name: str = "it"
    told_by: str = "conditions"


REVISIONS = str(CONTROLLER_REVISIONS)
SUSPEND, ONE = {"spec": {"suspend": True}}, {"spec": {"replicas": 1}}
ROWS = {
    "the Service of a cluster": Row(RAYCLUSTERS, a_cluster, aim_elsewhere, "services", PATCH),
    "the pods of a cluster": Row(RAYCLUSTERS, a_cluster, shrink, "pods", DELETE),
    "a cluster": Row(RAYCLUSTERS, a_cluster, shrink, CLUSTERS, PATCH, told_by="events"),
    "the cluster of a job": Row(RAYJOBS, a_job, wait, CLUSTERS, DELETE),
    "a job": Row(RAYJOBS, a_job, wait, "rayjobs.ray.io", PATCH, told_by="events"),
    "a deleted job": Row(
        RAYJOBS, a_running_job, delete_job, "rayjobs.ray.io", PATCH, told_by="events"
    ),
    "the jobs of a cron job": Row(
        RAYCRONJOBS,
        a_cron_job,
        {"spec": {"successfulJobsHistoryLimit": 0}},
        "rayjobs.ray.io",
        DELETE,
    ),
    "a cron job": Row(
        RAYCRONJOBS, a_cron_job, SUSPEND, "raycronjobs.ray.io", PATCH, told_by="events"
    ),
    "a service": Row(
        RAYSERVICES, a_service, SUSPEND, "rayservices.ray.io", PATCH, told_by="events"
    ),
    "the pending cluster": Row(RAYSERVICES, a_service, other_image(), CLUSTERS, CREATE),
    "the stored config": Row(
        RAYSERVICES, a_service, {"spec": {"serveConfigV2": serve_config("other")}}, CLUSTERS, PATCH
    ),
    "the replaced cluster": Row(RAYSERVICES, a_service, other_image(), CLUSTERS, DELETE),
    "the selectors of services": Row(RAYSERVICES, a_service, other_image(), "services", PATCH),
    "the serve label": Row(RAYSERVICES, a_service, other_image(), "pods", PATCH),
    "the new clusters of a fleet": Row(
        RAYCLUSTERFLEETS, a_fleet, replace_clusters, CLUSTERS, CREATE
    ),
    "the clusters of a fleet": Row(
        RAYCLUSTERFLEETS,
        a_fleet,
        {"spec": {"template": {"spec": {"suspend": True}}}},
        CLUSTERS,
        PATCH,
    ),
    "a surplus cluster of a fleet": Row(RAYCLUSTERFLEETS, a_fleet, ONE, CLUSTERS, DELETE),
    "a fleet": Row(RAYCLUSTERFLEETS, a_fleet, ONE, str(RAYCLUSTERFLEETS), PATCH, told_by="events"),
    "the new workspaces of a set": Row(
        INFERENCE_SETS, a_set, {"spec": {"replicas": 3}}, str(WORKSPACES), CREATE
    ),
    "the workspaces of a set": Row(
        INFERENCE_SETS,
        a_set,
        {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}},
        str(WORKSPACES),
        PATCH,
    ),
    "a surplus workspace of a set": Row(INFERENCE_SETS, a_set, ONE, str(WORKSPACES), DELETE),
    "an inference set": Row(
        INFERENCE_SETS, a_set, ONE, str(INFERENCE_SETS), PATCH, told_by="events"
    ),
    "the new server of a workspace": Row(
        WORKSPACES, a_workspace, delete_server, str(STATEFUL_SETS), CREATE
    ),
    "the server of a workspace": Row(
        WORKSPACES, a_workspace, other_adapter(), str(STATEFUL_SETS), PATCH
    ),
    "a workspace": Row(
        WORKSPACES,
        a_workspace,
        {"resource": {"instanceType": "Standard_ND96asr_v4"}},
        str(WORKSPACES),
        PATCH,
        told_by="events",
    ),
    "a deleted workspace": Row(
        WORKSPACES, a_workspace, delete_workspace, str(WORKSPACES), PATCH, told_by="events"
    ),
    "the pods of an upgrade": Row(
        RAYCLUSTERS, a_rolling_cluster, new_template, "pods", PATCH, "example"
    ),
    "a new revision": Row(
        RAYCLUSTERS, a_rolling_cluster, replaced_pods, REVISIONS, CREATE, "example"
    ),
    "the number of a revision": Row(
        RAYCLUSTERS, an_upgraded_cluster, former_template, REVISIONS, PATCH, "example", told_by=""
    ),
    "the old revisions of a cluster": Row(
        RAYCLUSTERS,
        a_rolling_cluster,
        keep_many_revisions,
        REVISIONS,
        DELETE,
        "example",
        told_by="",
    ),
}
THOROUGH = ("the Service of a cluster", "the pods of a cluster", "a cluster")


async def said(world: World, row: Row) -> str:
    """What the conditions or the events say."""
    if row.told_by == "events":
        return " ".join(note for _, note in await world.events_about(row.kind.kind, row.name))
    obj = await world.user.get(row.kind, world.namespace, row.name)
    return " ".join(each["message"] for each in obj.status["conditions"])


@pytest.mark.parametrize(
    ("what", "sort"),
    [
        *((what, sort) for what in THOROUGH for sort in WORDS),
        *((what, sort) for what, sort in in_turn(ROWS, MAIN) if what not in THOROUGH),
    ],
)
async def test_a_write_that_fails_for_ever_is_named_costs_little_and_is_made_once_it_can_be(
    world: World, what: str, sort: str
):
    row = ROWS[what]
    operator = await row.begin(world)
    rule = Rule(FAULTS[sort], row.resource, row.verbs, name=lambda n: n.startswith(row.name))
    operator.transport.rules = [rule]
    if isinstance(row.provoke, dict):
        await world.user.merge_patch(row.kind, world.namespace, row.name, row.provoke)
    else:
        await row.provoke(world)
    await world.settle(15 if sort == "silent" else 30)
    words = WORDS[sort] if row.told_by else ""
    assert words in await said(world, row)
    since = len(operator.transport.journal.entries)
    await world.settle(TEN_MINUTES)
    assert len(requests(operator, since)) <= MOST
    assert rule.seen > 5
    assert words in await said(world, row)

    since = len(operator.transport.journal.entries)
    operator.transport.rules = []
    await world.settle(180 if sort == "silent" else 60)
    outcomes = [
        entry.outcome
        for entry in operator.transport.journal.entries[since:]
        if entry.attributes.verb in row.verbs and entry.attributes.resource == row.resource
    ]
    assert {"200", "201"} & set(outcomes)
    assert not words or row.told_by == "events" or words not in await said(world, row)


async def test_several_changes_that_fail_for_ever_cost_little(world: World):
    operator = await a_service(world)
    operator.transport.rules = [Rule(SORTS["failing"], "services", PATCH)]
    since = len(operator.transport.journal.entries)
    for name in ("it-head-svc", "it-serve-svc"):
        patch = {"spec": {"selector": {"ray.io/cluster": "elsewhere"}}}
        await world.user.merge_patch(SERVICES, world.namespace, name, patch)
    await world.settle(TEN_MINUTES)
    assert len(requests(operator, since)) <= MOST


@pytest.mark.parametrize(("times", "named"), [(1, False), (2, True)])
async def test_a_server_that_is_busy_for_a_moment_is_no_news_and_one_that_stays_so_is(
    world: World, times: int, *, named: bool
):
    operator = await a_cluster(world)
    rule = Rule(FAULTS["busy"], "services", PATCH, times=times)
    operator.transport.rules = [rule]
    texts: list[str] = []
    await aim_elsewhere(world)
    for _ in range(50):
        await world.settle(0.1)
        texts.append(await said(world, ROWS["the Service of a cluster"]))
    await world.settle(10)
    assert rule.seen == times + 1, "the repetition is made by the one rule of waiting"
    assert any(WORDS["busy"] in text for text in texts) is named
    assert WORDS["busy"] not in await said(world, ROWS["the Service of a cluster"])
