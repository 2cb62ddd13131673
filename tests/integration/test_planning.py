"""`manta plan` says beforehand what the operator then does, on whichever API server there is."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from datetime import datetime
from functools import reduce
from operator import getitem
from typing import Any

import msgspec
import pytest

from controller.apimachinery.metadata import owner_reference
from controller.command.kinds import KindSettings, kinds_of
from controller.command.planning.net_changes import ObjectPlan
from controller.command.planning.planner import Planner
from controller.kube.client import Client
from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from controller.kube.transport import JSON
from controller.ray.api import RAYCLUSTERS, RAYJOBS, FeatureGates, labels
from controller.ray.dashboard.actors import DashboardActors
from controller.runtime.kind import Kind, Owned
from controller.runtime.plan import NOTHING, Create, Plan, Target
from controller.testing.faults import ErrorResponse, FaultyTransport, Rule
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import World, example_cluster, role
from tests.integration.rays import Rays, forever, job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.test_all_kinds import cron_job

pytestmark = pytest.mark.slow


def planner(world: World) -> Planner:
    return Planner(world.user, kinds_of(KindSettings(), None), world.wall())


async def planned(world: World, manifest: dict[str, Any]) -> ObjectPlan:
    return await planner(world).for_manifest(manifest, world.namespace)


async def apply(
    world: World, manifest: dict[str, Any], resource: Resource[Any] = RAYCLUSTERS
) -> None:
    body = copy.deepcopy(manifest)
    body["metadata"] = {"annotations": {}, "namespace": world.namespace} | body["metadata"]
    last = msgspec.json.encode(body).decode()
    body["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = last
    path = resource.path(world.namespace)
    await world.user.request_json("POST", path, body=body, content_type=JSON)


async def ready(world: World, manifest: dict[str, Any]) -> None:
    world.start_operator()
    await apply(world, manifest)
    await world.eventually(world.is_ready)


def by_action(plan: ObjectPlan) -> dict[str, list[tuple[str, str, int]]]:
    found: dict[str, list[tuple[str, str, int]]] = {}
    for item in plan.items:
        found.setdefault(item.action, []).append((item.kind, item.group, item.count))
    return found


async def test_what_is_planned_for_a_new_cluster_is_what_is_then_made(world: World):
    manifest = example_cluster(replicas=3)
    plan = await planned(world, manifest)
    assert not plan.exists
    assert not plan.problem
    await ready(world, manifest)

    pods = await world.user.list(PODS, world.namespace)
    services = await world.user.list(SERVICES, world.namespace, label_selector="ray.io/cluster")
    assert by_action(plan)["create"] == [
        ("Pod", "headgroup", 1),
        ("Pod", "workers", 3),
        *(("Service", "", 1) for _ in services.items),
    ]
    prefixes = {item.new.rstrip("*") for item in plan.items if item.kind == "Pod"}
    assert {pod.metadata.name[:-8] for pod in pods.items} == prefixes


async def test_planning_writes_nothing(world: World):
    await planned(world, example_cluster())
    assert not (await world.user.list(RAYCLUSTERS, world.namespace)).items
    await ready(world, example_cluster())
    before = await world.cluster()
    await planned(world, example_cluster(replicas=5))
    after = await world.cluster()
    assert after.metadata.resource_version == before.metadata.resource_version
    assert len(world.journal.present) == 3


async def test_all_existing_clusters_can_be_planned_for_as_they_are(world: World):
    await apply(world, example_cluster("waiting"))
    await ready(world, example_cluster())
    await world.eventually(lambda: world.is_ready("waiting"))
    plans = await planner(world).for_existing(world.namespace)
    assert [(plan.name, plan.exists, plan.items) for plan in plans] == [
        ("example", True, ()),
        ("waiting", True, ()),
    ]


async def test_scaling_is_planned_as_edits_and_pods(world: World):
    await ready(world, example_cluster(replicas=2))
    more = await planned(world, example_cluster(replicas=4))
    assert [(edit.path, edit.old, edit.new) for edit in more.edits] == [
        ("spec.workerGroupSpecs[workers].replicas", 2, 4)
    ]
    assert by_action(more) == {"create": [("Pod", "workers", 2)]}

    fewer = await planned(world, example_cluster(replicas=1))
    assert by_action(fewer) == {"delete": [("Pod", "workers", 1)]}
    (item,) = fewer.items
    assert item.names[0] in {pod.metadata.name for pod in world.journal.workers()}
    assert item.why == "the group has more pods than it should"


async def test_a_template_that_reaches_new_pods_only_is_noted(world: World):
    manifest = example_cluster()
    await ready(world, manifest)
    template = manifest["spec"]["workerGroupSpecs"][0]["template"]
    template["spec"]["containers"][0]["image"] = "rayproject/ray:next"
    plan = await planned(world, manifest)
    assert plan.items == ()
    assert "2 pods were created from an older template" in " ".join(plan.notes)


async def test_an_unknown_field_of_a_pod_template_is_noted_with_the_nearest_right_name(
    world: World,
):
    manifest = example_cluster()
    template = manifest["spec"]["headGroupSpec"]["template"]
    template["spec"]["nodeSelektor"] = {"disk": "ssd"}
    job = job_manifest("example", rayClusterSpec=manifest["spec"])
    where = "headGroupSpec.template.spec.nodeSelektor (did you mean nodeSelector?)"
    for each, path in ((manifest, f"spec.{where}"), (job, f"spec.rayClusterSpec.{where}")):
        plan = await planned(world, each)
        assert not plan.problem
        assert any(path in note for note in plan.notes)


async def test_what_the_manifest_no_longer_says_goes_as_with_kubectl_apply(world: World):
    manifest = example_cluster()
    manifest["metadata"]["annotations"] = {"team": "a"}
    await ready(world, manifest)
    del manifest["metadata"]["annotations"]
    plan = await planned(world, manifest)
    assert [(edit.path, edit.old, edit.new) for edit in plan.edits] == [
        ("metadata.annotations.team", "a", None)
    ]


async def test_what_the_operator_cannot_read_is_a_problem_and_hinders_no_other(world: World):
    manifest, inner = example_cluster("odd"), {}
    for _ in range(120):
        inner = {"a": inner}
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["odd"] = inner
    plan = await planned(world, manifest)
    assert "nested too deeply, at most 100 levels are possible" in plan.problem
    assert plan.items == ()

    await world.user.request_json("POST", RAYCLUSTERS.path(world.namespace), body=manifest)
    assert not (await planned(world, example_cluster())).problem
    (existing,) = await planner(world).for_existing(world.namespace)
    assert existing.problem == plan.problem


async def test_a_manifest_of_another_served_version_is_planned_like_any(world: World):
    manifest = example_cluster() | {"apiVersion": "ray.io/v1alpha1"}
    plan = await planned(world, manifest)
    assert not plan.problem
    assert by_action(plan).keys() == {"create"}

    await apply(world, example_cluster())
    manifest["spec"]["workerGroupSpecs"][0]["replicas"] += 1
    plan = await planned(world, manifest)
    assert not plan.problem
    assert "spec.workerGroupSpecs[workers].replicas" in [edit.path for edit in plan.edits]


async def test_suspension_is_planned_through_all_of_its_steps(world: World):
    manifest = example_cluster(replicas=2)
    await ready(world, manifest)
    manifest["spec"]["suspend"] = True
    plan = await planned(world, manifest)
    assert by_action(plan) == {"delete": [("Pod", "headgroup", 1), ("Pod", "workers", 2)]}
    assert len({role(pod) for pod in world.journal.present.values()}) == 2


@pytest.mark.embedded_only
async def test_what_is_planned_for_a_new_job_is_what_is_then_made(world: World, rays: Rays):
    plan = await planned(world, job_manifest(submissionMode="K8sJobMode"))
    assert (plan.kind, plan.exists, plan.problem) == ("RayJob", False, "")
    rays.ray.course = lambda _body: forever()
    start_all_kinds(rays)
    await rays.create(submissionMode="K8sJobMode")
    await rays.reaches("Running")
    await world.settle(5)

    made = by_action(plan)["create"]
    assert made.count(("RayCluster", "", 1)) == len(await rays.clusters()) == 1
    assert made.count(("Job", "", 1)) == len(await rays.jobs_of_kubernetes()) == 1
    services = await world.user.list(SERVICES, world.namespace)
    ours = [each for each in services.items if each.metadata.controller is not None]
    assert made.count(("Service", "", 1)) == len(ours)
    assert ("Pod", "headgroup", 1) in made
    assert ("Pod", "workers", 1) in made
    (cluster,) = (item.new for item in plan.items if item.kind == "RayCluster")
    assert cluster == "job-*", "its end follows from the moment of its creation"


@pytest.mark.embedded_only
async def test_planning_for_jobs_writes_nothing_and_asks_no_dashboard(world: World, rays: Rays):
    rays.ray.course = lambda _body: forever()
    start_all_kinds(rays)
    await rays.create()
    await rays.reaches("Running")
    await world.settle(60)
    before, asked = (await rays.job()).metadata.resource_version, len(rays.ray.asked)
    plans = await planner(world).for_existing(world.namespace)
    assert [(plan.kind, plan.items) for plan in plans] == [("RayCluster", ()), ("RayJob", ())]
    again = await planned(world, job_manifest())
    assert (again.exists, again.items) == (True, ())
    assert (await rays.job()).metadata.resource_version == before
    assert len(rays.ray.asked) == asked


async def test_a_manifest_that_is_applied_again_leads_to_nothing(world: World, rays: Rays):
    rays.ray.course = lambda _body: forever()
    rays.start_operator()
    manifest = job_manifest(submissionMode="K8sJobMode")
    await apply(world, manifest, RAYJOBS)
    await rays.reaches("Running", seconds=120)
    await world.becomes(
        rays.job, lambda found: labels.SUBMITTED in (found.metadata.annotations or {})
    )
    again = await planned(world, manifest)
    assert (again.edits, again.items, again.notes) == ((), (), ())


async def test_every_problem_of_a_manifest_is_told_at_once(world: World):
    manifest = example_cluster()
    manifest["spec"]["enableInTreeAutoscalling"] = True
    manifest["spec"]["workerGroupSpecs"][0] |= {"replcias": 2, "minReplicas": 9, "maxReplicas": 1}
    manifest["spec"]["headGroupSpec"]["labels"] = {"no key": "x"}
    group = "spec.workerGroupSpecs[0]"
    larger = "minReplicas must not be the larger one"
    autoscaling = (
        "spec.enableInTreeAutoscalling: is unknown (did you mean enableInTreeAutoscaling?)"
    )
    assert (await planned(world, manifest)).problem.split(". Also ") == [
        f"{autoscaling}; correct or remove it",
        f"{group}.replcias: is unknown (did you mean replicas?); correct or remove it",
        "spec.headGroupSpec.labels[no key]: is not a valid label key",
        f"{group}.minReplicas: minReplicas is 9 and maxReplicas is 1; {larger}",
    ]
    del manifest["spec"]["workerGroupSpecs"][0]["template"]
    assert (await planned(world, manifest)).problem.split(". Also ")[2:] == [
        "spec.workerGroupSpecs[0].template: must be set"
    ]


class AppKind(Kind[Any]):
    """A toy kind: creates a RayCluster and, when that is ready, a RayJob. Apps are ConfigMaps."""

    name = "app-controller"
    primary = CONFIG_MAPS
    creates = (RAYCLUSTERS, RAYJOBS)
    owned = (Owned(RAYCLUSTERS), Owned(RAYJOBS))

    def observe(self, key: str, reads: Any) -> Any:
        app = reads.get(CONFIG_MAPS, key)
        cluster, job = reads.get(RAYCLUSTERS, f"{key}-cluster"), reads.get(RAYJOBS, f"{key}-job")
        return app and (app, cluster, job)

    def plan(self, observation: Any, now: datetime) -> Plan:
        app, cluster, job = observation
        if cluster is None:
            return self.creation(app, RAYCLUSTERS, example_cluster(f"{app.metadata.name}-cluster"))
        if job is None and cluster.status.get("state") == "ready":
            return self.creation(app, RAYJOBS, job_manifest(f"{app.metadata.name}-job"))
        return NOTHING

    def creation(self, app: Any, resource: Any, body: dict[str, Any]) -> Plan:
        meta = app.metadata
        target = Target(resource, meta.namespace, body["metadata"]["name"])
        body["metadata"]["ownerReferences"] = [owner_reference(CONFIG_MAPS, meta)]
        return Plan(stages=((Create(target, body),),))


def with_apps(world: World) -> Planner:
    kinds: list[Any] = [AppKind(), *kinds_of(KindSettings(), None)]
    return Planner(world.user, kinds, world.wall())


async def test_a_kind_that_creates_objects_of_two_others_is_planned_down_to_the_pods(world: World):
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}
    plan = await with_apps(world).for_manifest(manifest, world.namespace)
    assert (plan.kind, plan.problem) == ("ConfigMap", "")
    created = {(item.kind, item.new): item.count for item in plan.items}
    assert (
        created.items()
        >= {
            ("RayCluster", "app-cluster"): 1,
            ("Pod", "app-cluster-head-*"): 1,
            ("Pod", "app-cluster-workers-worker-*"): 2,
            ("RayJob", "app-job"): 1,
            ("RayCluster", "app-job-*"): 1,
            ("Pod", "app-job-*-head-*"): 1,
            ("Pod", "app-job-*-workers-worker-*"): 1,
        }.items()
    )


def start_all_kinds(rays: Rays) -> None:
    world = rays.world
    actors = DashboardActors(
        rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
    )
    world.start_operator(kinds=kinds_of(KindSettings(), actors))


async def test_pods_that_the_api_server_would_refuse_are_told_with_its_words(world: World):
    manifest = example_cluster(replicas=3)
    container = manifest["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "nowhere", "mountPath": "/a"}]
    plan = await planned(world, manifest)
    (refusal,) = plan.refusals
    assert (refusal.kind, refusal.group, refusal.count) == ("Pod", "workers", 3)
    assert "spec.containers[0].volumeMounts[0].name" in refusal.message
    assert refusal.name.endswith("-*")


def no_image(container: dict[str, Any]) -> None:
    del container["image"]


def unknown_volume(container: dict[str, Any]) -> None:
    container["volumeMounts"] = [{"name": "nowhere", "mountPath": "/a"}]


def request_above_limit(container: dict[str, Any]) -> None:
    container["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


def wrong_policy(container: dict[str, Any]) -> None:
    container["imagePullPolicy"] = "Sometimes"


MISTAKES = [
    (no_image, "image: Required value"),
    (unknown_volume, 'volumeMounts[0].name: Not found: "nowhere"'),
    (request_above_limit, "must be less than or equal to cpu limit"),
    (wrong_policy, 'imagePullPolicy: Unsupported value: "Sometimes"'),
]
CLUSTER_OF: dict[str, tuple[Callable[[], dict[str, Any]], tuple[str, ...]]] = {
    "RayCluster": (example_cluster, ("spec",)),
    "RayJob": (lambda: job_manifest("it"), ("spec", "rayClusterSpec")),
    "RayService": (lambda: service_manifest("it"), ("spec", "rayClusterConfig")),
    "RayClusterFleet": (lambda: fleet_manifest("it"), ("spec", "template", "spec")),
    "RayCronJob": (lambda: cron_job("it", "0 0 1 1 *"), ("spec", "jobTemplate", "rayClusterSpec")),
}
"""A manifest of each kind that creates clusters, at once or when it is due, and the path of the
cluster's specification."""


@pytest.mark.parametrize("kind", CLUSTER_OF)
@pytest.mark.parametrize(("mistake", "words"), MISTAKES)
async def test_a_pod_that_would_be_refused_is_told_whatever_kind_it_would_be_created_for(
    world: World, kind: str, mistake: Callable[[dict[str, Any]], None], words: str
):
    make, path = CLUSTER_OF[kind]
    manifest = make()
    spec = reduce(getitem, path, manifest)
    mistake(spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0])
    gates = FeatureGates({"RayClusterFleet": True})
    kinds = kinds_of(KindSettings.from_environment(gates, {}), None)
    plan = await Planner(world.user, kinds, world.wall()).for_manifest(manifest, world.namespace)
    assert any(words in refusal.message for refusal in plan.refusals)


async def test_an_unknown_field_of_the_manifest_is_refused_as_kubectl_does(world: World):
    manifest = example_cluster()
    manifest["spec"]["workerGroupSpec"] = []
    plan = await planned(world, manifest)
    assert "spec.workerGroupSpec: is unknown (did you mean workerGroupSpecs?)" in plan.problem


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (
            ErrorResponse(403, "Forbidden", 'User "jane" cannot create resource "pods"'),
            "your account may not create pods",
        ),
        (
            ErrorResponse(400, "BadRequest", "admission webhook does not support dry run"),
            "does not support dry run",
        ),
    ],
)
async def test_what_could_not_be_asked_is_a_note_and_no_refusal(
    world: World, refused: ErrorResponse, words: str
):
    rule = Rule(refused, resource="pods", verbs=frozenset({"create"}))
    transport = FaultyTransport(world.transport, [rule], clock=world.loop)
    client = Client(transport, user_agent="test", clock=world.loop)
    asking = Planner(client, kinds_of(KindSettings(), None), world.wall())
    plan = await asking.for_manifest(example_cluster(), world.namespace)
    assert plan.refusals == ()
    (note,) = [note for note in plan.notes if "not known" in note]
    assert words in note


async def test_what_another_planned_write_creates_is_not_missed(world: World):
    text = 'error looking up service account ns/example: serviceaccount "example" not found'
    rule = Rule(ErrorResponse(403, "Forbidden", text), resource="pods", verbs=frozenset({"create"}))
    transport = FaultyTransport(world.transport, [rule], clock=world.loop)
    client = Client(transport, user_agent="test", clock=world.loop)
    asking = Planner(client, kinds_of(KindSettings(), None), world.wall())
    manifest = example_cluster()
    plan = await asking.for_manifest(manifest, world.namespace)
    assert plan.refusals, "no service account is planned"
    manifest["spec"]["enableInTreeAutoscaling"] = True
    plan = await asking.for_manifest(manifest, world.namespace)
    assert ("ServiceAccount", "example") in [(item.kind, item.new) for item in plan.items]
    assert plan.refusals == ()
