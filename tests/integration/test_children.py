"""Children besides pods: kept as specified in what is ours, left alone in what others added."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest

from controller.kube.errors import AlreadyExists, NotFound, PathNotFound
from controller.kube.resources import (
    CLAIMS,
    CRDS,
    INGRESSES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.names import COLLECTOR
from controller.testing.faults import LostRequest, LostResponse, on_write
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import OPERATOR, World, example_cluster

Json = dict[str, Any]

SERVE = "ray.io/enable-serve-service"
CHILDREN: tuple[tuple[Resource[Any], str], ...] = (
    (SERVICES, "example-head-svc"),
    (SERVICES, "example-headless"),
    (SERVICES, "example-serve-svc"),
    (INGRESSES, "example-head-ingress"),
    (SECRETS, "example"),
    (CLAIMS, "example-gcs-pvc"),
    (SERVICE_ACCOUNTS, "example"),
    (ROLES, "example"),
    (ROLE_BINDINGS, "example"),
)
ROUTE_CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "routes.route.openshift.io"},
    "spec": {
        "group": "route.openshift.io",
        "scope": "Namespaced",
        "names": {"plural": "routes", "singular": "route", "kind": "Route"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def with_everything() -> Json:
    """A cluster that has every child there is, and no workers."""
    manifest = example_cluster(replicas=0)
    manifest["metadata"]["annotations"] = {SERVE: "true", "example.com/for": "ingress"}
    spec = manifest["spec"]
    spec |= {
        "rayVersion": "2.55.0",
        "enableInTreeAutoscaling": True,
        "authOptions": {"mode": "token"},
        "gcsFaultToleranceOptions": {"backend": "rocksdb"},
        "headServiceAnnotations": {"example.com/for": "service"},
    }
    head = spec["headGroupSpec"]
    head |= {"enableIngress": True, "serviceType": "NodePort"}
    head["template"]["spec"]["containers"][0]["ports"].append(
        {"name": "serve", "containerPort": 8000}
    )
    spec["workerGroupSpecs"][0]["numOfHosts"] = 2
    return manifest


async def everything(world: World) -> None:
    """Make that cluster, and wait until all is there and quiet."""
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, with_everything())
    await world.eventually(world.is_ready)
    for resource, name in CHILDREN:
        await world.eventually(lambda r=resource, n=name: exists(world, r, n))
    await world.settle(3)


async def raw(world: World, resource: Resource[Any], name: str) -> Json:
    return await world.user.get_raw(resource, world.namespace, name)


async def exists(world: World, resource: Resource[Any], name: str) -> bool:
    try:
        await raw(world, resource, name)
    except NotFound:
        return False
    return True


async def patch_cluster(world: World, patch: Json) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", patch)


def managed(obj: Json) -> Json:
    """What matters of an object when two states are compared."""
    shown = copy.deepcopy(obj)
    for key in ("resourceVersion", "managedFields", "generation"):
        shown["metadata"].pop(key, None)
    return shown


@pytest.mark.embedded_only
async def test_at_rest_no_request_is_made(world: World):
    await everything(world)
    before = requests(world)
    await world.settle(900)
    assert requests(world) == before


def requests(world: World) -> dict[tuple[str, str], int]:
    assert world.server is not None
    return {
        (verb, resource): count
        for (agent, verb, resource), count in world.server.audit.requests.items()
        if agent.startswith(OPERATOR) and verb != "watch"
    }


async def uid(world: World, resource: Resource[Any], name: str) -> str:
    try:
        return (await raw(world, resource, name))["metadata"]["uid"]
    except NotFound:
        return ""


async def is_gone(world: World, resource: Resource[Any], name: str) -> bool:
    return not await exists(world, resource, name)


FOREIGN: Json = {
    "metadata": {"labels": {"example.com/team": "a"}, "annotations": {"example.com/note": "b"}}
}


async def test_what_others_add_to_children_stays(world: World):
    await everything(world)
    edited: dict[tuple[Resource[Any], str], Json] = {}
    for resource, name in CHILDREN:
        await world.user.merge_patch(resource, world.namespace, name, FOREIGN)
        edited[resource, name] = await raw(world, resource, name)
    await patch_cluster(world, {"metadata": {"annotations": {"example.com/wake": "up"}}})
    await world.settle(5)
    for (resource, name), before in edited.items():
        now = await raw(world, resource, name)
        assert now["metadata"]["labels"]["example.com/team"] == "a"
        assert now["metadata"]["annotations"]["example.com/note"] == "b"
        if resource is not INGRESSES:  # which gets the cluster's annotations
            assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def on(path: str, value: Any) -> Json:
    """A merge patch of one value: `spec/type`; `~` stands for a slash in a key."""
    patch: Any = value
    for key in reversed(path.split("/")):
        patch = {key.replace("~", "/"): patch}
    return patch


BROKEN: dict[str, tuple[Resource[Any], str, Json]] = {
    "selector changed": (
        SERVICES,
        "example-head-svc",
        on("spec/selector", {"ray.io/node-type": "worker"}),
    ),
    "selector narrowed": (SERVICES, "example-head-svc", on("spec/selector", {"and": "more"})),
    "type changed": (SERVICES, "example-head-svc", on("spec/type", "LoadBalancer")),
    "label gone": (SERVICES, "example-head-svc", on("metadata/labels/ray.io~cluster", None)),
    "annotation changed": (
        SERVICES,
        "example-head-svc",
        on("metadata/annotations/example.com~for", "else"),
    ),
    "headless selector": (
        SERVICES,
        "example-headless",
        on("spec/selector", {"ray.io/cluster": "other"}),
    ),
    "serve selector": (SERVICES, "example-serve-svc", on("spec/selector", {"and": "more"})),
    "rules of the ingress": (
        INGRESSES,
        "example-head-ingress",
        on("spec/rules", [{"host": "elsewhere.example.com"}]),
    ),
    "annotation of the ingress": (
        INGRESSES,
        "example-head-ingress",
        on("metadata/annotations/example.com~for", None),
    ),
    "label of the ingress": (
        INGRESSES,
        "example-head-ingress",
        on("metadata/labels/ray.io~cluster", "other"),
    ),
    "rules of the role": (ROLES, "example", on("rules", [])),
    "label of the secret": (SECRETS, "example", on("metadata/labels/ray.io~cluster", None)),
    "owner of the claim": (CLAIMS, "example-gcs-pvc", on("metadata/ownerReferences", None)),
}


async def test_each_field_of_ours_is_put_right(world: World):
    await everything(world)
    for resource, name, patch in BROKEN.values():
        good = managed(await raw(world, resource, name))
        await world.user.merge_patch(resource, world.namespace, name, patch)
        await world.eventually(partial(is_as, world, resource, name, good), seconds=20)


async def is_as(world: World, resource: Resource[Any], name: str, wanted: Json) -> bool:
    now = managed(await raw(world, resource, name))
    if resource is SERVICES:  # what LoadBalancer leaves behind
        for state in (now, wanted):
            state["spec"].pop("allocateLoadBalancerNodePorts", None)
    return now == wanted


async def test_what_leads_in_from_outside_goes_when_it_is_turned_off(world: World):
    await everything(world)
    await patch_cluster(
        world,
        {
            "metadata": {"annotations": {SERVE: None}},
            "spec": {"headGroupSpec": {"enableIngress": False}, "enableInTreeAutoscaling": False},
        },
    )
    await world.eventually(lambda: is_gone(world, INGRESSES, "example-head-ingress"))
    await world.eventually(lambda: is_gone(world, SERVICES, "example-serve-svc"))
    await world.settle(3)
    for resource, name in CHILDREN:
        if name not in {"example-head-ingress", "example-serve-svc"}:
            assert await exists(world, resource, name), f"{resource} {name}"


async def test_a_renamed_service_of_the_head_goes_with_the_last_worker_that_knows_its_name(
    world: World,
):
    world.start_operator()
    await world.create_cluster(replicas=2)
    await world.eventually(world.is_ready)
    renamed = {"spec": {"headGroupSpec": {"headService": {"metadata": {"name": "ours"}}}}}
    await patch_cluster(world, renamed)
    await world.eventually(lambda: exists(world, SERVICES, "ours"))
    first, second = sorted(world.journal.workers(), key=lambda pod: pod.metadata.name)
    for worker, is_left in ((first, True), (second, False)):
        await world.settle(5)
        assert await exists(world, SERVICES, "example-head-svc"), "a worker finds the head by it"
        await world.user.delete(PODS, world.namespace, worker.metadata.name)
        await world.settle(20)
        assert await exists(world, SERVICES, "example-head-svc") is is_left
    assert await exists(world, SERVICES, "ours")


async def test_a_claim_follows_the_deletion_policy(world: World):
    await everything(world)
    policy = on("spec/gcsFaultToleranceOptions/storage", {"deletionPolicy": "Retain"})
    await patch_cluster(world, policy)

    async def owners() -> int:
        claim = await raw(world, CLAIMS, "example-gcs-pvc")
        return len(claim["metadata"].get("ownerReferences", ()))

    await world.becomes(owners, 0)
    policy = on("spec/gcsFaultToleranceOptions/storage", {"deletionPolicy": "DeleteWithCluster"})
    await patch_cluster(world, policy)
    await world.becomes(owners, 1)


async def message(world: World, kind: str) -> str:
    found = await world.condition(kind)
    return found["message"] if found["status"] == "False" else ""


@pytest.mark.embedded_only
async def test_where_there_are_routes_a_route_leads_to_the_head(world: World):
    await install_routes(world)
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, with_everything())
    await world.eventually(lambda: exists(world, ROUTES, "example-head-route"))
    await world.eventually(world.is_ready)
    assert await is_gone(world, INGRESSES, "example-head-ingress")
    good = managed(await raw(world, ROUTES, "example-head-route"))
    broken = {"spec": {"to": {"name": "elsewhere"}, "host": "chosen.by.the.router"}}
    await world.user.merge_patch(ROUTES, world.namespace, "example-head-route", broken)
    good["spec"]["host"] = "chosen.by.the.router"
    await world.eventually(lambda: is_as(world, ROUTES, "example-head-route", good))
    await patch_cluster(world, {"spec": {"headGroupSpec": {"enableIngress": False}}})
    await world.eventually(lambda: is_gone(world, ROUTES, "example-head-route"))


async def install_routes(world: World) -> None:
    try:
        await world.user.create(CRDS, "", ROUTE_CRD)
    except AlreadyExists:
        return

    async def are_served() -> bool:
        try:
            await world.user.list(ROUTES, world.namespace)
        except (NotFound, PathNotFound):
            return False
        return True

    await world.eventually(are_served)


async def test_a_deleted_claim_is_made_anew_when_the_head_has_let_go_of_it(world: World):
    await everything(world)
    before = await raw(world, CLAIMS, "example-gcs-pvc")
    await world.user.delete(CLAIMS, world.namespace, "example-gcs-pvc")
    await world.settle(3)
    assert await exists(world, CLAIMS, "example-gcs-pvc"), "the head uses it"
    (head,) = (await world.user.list(PODS, world.namespace)).items
    await world.user.delete(PODS, world.namespace, head.metadata.name, grace_seconds=0)

    async def is_new() -> bool:
        return await uid(world, CLAIMS, "example-gcs-pvc") not in {"", before["metadata"]["uid"]}

    await world.eventually(is_new)

    async def has_a_new_head() -> bool:
        pods = (await world.user.list(PODS, world.namespace)).items
        return [pod.metadata.name for pod in pods] != [head.metadata.name] and len(pods) == 1

    await world.eventually(has_a_new_head)


@pytest.mark.slow
@pytest.mark.embedded_only
@pytest.mark.parametrize("fault", [LostResponse(), LostRequest()], ids=["answer", "request"])
@pytest.mark.parametrize("number", range(1, 15))
async def test_whichever_write_gets_lost_every_part_is_made_once(
    world: World, fault: LostResponse | LostRequest, number: int
):
    made: list[tuple[str, str]] = []
    assert world.server is not None
    world.server.on_write.append(lambda event: note_creation(event, made))
    world.start_operator(rules=[on_write(fault, number)])
    await world.user.create(RAYCLUSTERS, world.namespace, with_everything())
    await world.eventually(world.is_ready, seconds=120)
    for resource, name in CHILDREN:
        await world.eventually(lambda r=resource, n=name: exists(world, r, n))
    await world.settle(60)
    for resource, name in CHILDREN:
        assert made.count((str(resource), name)) == 1, f"{resource} {name}"


def note_creation(event: StoredEvent, made: list[tuple[str, str]]) -> None:
    if event.type == "ADDED":
        made.append((event.table, event.key.rpartition("/")[2]))


# -- the collector of the history server, turned on and off on a living cluster --------------------


STORAGE = {"STORAGE_BACKEND": "s3", "S3_REGION": "eu-west-1", "S3_BUCKET": "rays"}
ENV = [{"name": name, "value": value} for name, value in STORAGE.items()]
ON: dict[str, Any] = {"collectorOptions": {"image": "collector", "env": ENV}}


async def start(world: World, **spec: Any) -> None:
    body = example_cluster(replicas=2)
    body["spec"] |= spec
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.eventually(world.is_ready, seconds=90)


async def edit(world: World, options: dict[str, Any] | None) -> None:
    body = {"spec": {"historyServerOptions": options}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", body)
    await world.settle(5)


def collected(world: World) -> dict[str, bool]:
    """Whether each pod has a collector."""
    return {
        uid: COLLECTOR in {each.name for each in pod.spec.containers}
        for uid, pod in world.journal.present.items()
    }


async def replace_worker(world: World, uid: str) -> None:
    pod = world.journal.present[uid]
    await world.user.delete(PODS, world.namespace, pod.metadata.name)
    await world.eventually(lambda: uid not in world.journal.present, seconds=90)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 2, seconds=90)


async def test_turned_on_and_off_it_touches_no_pod_and_new_ones_follow(world: World):
    await start(world)
    before = collected(world)
    first = world.journal.ready_workers()[0].metadata.uid
    await edit(world, ON)
    assert collected(world) == before == dict.fromkeys(before, False)
    await replace_worker(world, first)
    (second,) = (uid for uid, has_collector in collected(world).items() if has_collector)
    await edit(world, None)
    assert second in collected(world)
    await replace_worker(world, second)
    assert set(collected(world).values()) == {False}


async def test_a_claim_that_was_kept_is_adopted_and_its_drift_is_said(world: World):
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "example-gcs-pvc"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}},
    }
    made = await world.user.create(CLAIMS, world.namespace, claim)
    await everything(world)
    now = await raw(world, CLAIMS, "example-gcs-pvc")
    assert now["metadata"]["uid"] == made.metadata.uid
    assert now["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert [owner["name"] for owner in now["metadata"]["ownerReferences"]] == ["example"]
    told = await message(world, "ChildrenAsSpecified")
    assert "size 1Gi is wanted and 5Gi was claimed" in told
    assert "accessModes ReadWriteOnce are wanted and they are ReadWriteMany" in told


async def test_a_service_that_cannot_get_node_ports_any_more_is_said_once_and_left(world: World):
    world.start_operator()
    await world.create_cluster(replicas=0)
    await world.eventually(world.is_ready)
    await patch_cluster(world, {"spec": {"headGroupSpec": {"serviceType": "NodePort"}}})

    async def is_said() -> bool:
        return "spec.type is headless ClusterIP" in await message(world, "ChildrenAsSpecified")

    await world.eventually(is_said)
    await world.settle(2)
    before = await raw(world, SERVICES, "example-head-svc")
    await world.settle(5)
    assert await raw(world, SERVICES, "example-head-svc") == before
    await world.user.delete(SERVICES, world.namespace, "example-head-svc")

    async def is_new() -> bool:
        if await is_gone(world, SERVICES, "example-head-svc"):
            return False
        return (await raw(world, SERVICES, "example-head-svc"))["spec"]["type"] == "NodePort"

    await world.eventually(is_new)
    await world.eventually(lambda: is_silent(world, "ChildrenAsSpecified"), seconds=60)


async def is_silent(world: World, kind: str) -> bool:
    return not await message(world, kind)
