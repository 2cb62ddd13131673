"""The tenant's pods do not do what pods should."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from controller.kube.errors import NotFound
from controller.kube.resources import PODS
from controller.ray.api.names import COLLECTOR
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import UPGRADES, Course, Sickness, unless_it_serves
from tests.ray.dashboard.simulated import Fault

Manifest = dict[str, Any]

STORAGE = {"STORAGE_BACKEND": "s3", "S3_REGION": "eu-west-1", "S3_BUCKET": "gone"}
LABEL = "ray.io/node-type"


def pods_that(outcome: str, *, groups: str = "all") -> Course:
    """The simulated kubelet lets this become of them; at the end their user corrects the image."""

    def alter(spec: Manifest) -> None:
        given = {"annotations": {"sim.manta.dev/outcome": outcome}}
        templates = [group["template"] for group in spec["workerGroupSpecs"]]
        if groups == "all":
            templates.append(spec["headGroupSpec"]["template"])
        for template in templates:
            template["metadata"] = given

    @asynccontextmanager
    async def course(sick: Tenant) -> AsyncIterator[None]:
        async with sick.corrected():
            with sick.altered(alter):
                yield

    return course


def with_unreachable_storage(spec: Manifest) -> None:
    """Ask for a collector, which ends because it cannot reach its bucket; Ray runs beside it."""
    env = [{"name": name, "value": value} for name, value in STORAGE.items()]
    spec["historyServerOptions"] = {"collectorOptions": {"image": "collector", "env": env}}
    behaviour = {"sim.manta.dev/outcome": "crash", "sim.manta.dev/container": COLLECTOR}
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["metadata"] = {"annotations": behaviour}


@asynccontextmanager
async def storing_nowhere(sick: Tenant) -> AsyncIterator[None]:
    """The storage of the history server is not reached; no head may be replaced for that."""
    heads: dict[str, set[tuple[str, int]]] = {}

    async def look() -> None:
        for pod in sick.objects(PODS):
            meta, statuses = pod["metadata"], pod.get("status", {}).get("containerStatuses")
            if meta["labels"][LABEL] == "head" and statuses:
                head = (meta["uid"], statuses[0]["restartCount"])
                heads.setdefault(meta["labels"]["ray.io/cluster"], set()).add(head)

    async with sick.corrected():
        with sick.altered(with_unreachable_storage):
            async with sick.meanwhile(look, every=5.0):
                yield
        replaced = [cluster for cluster, each in heads.items() if len(each) > 1]
        sick.street.findings.extend(f"the head of {each} is replaced" for each in replaced)


@asynccontextmanager
async def unlabelled(sick: Tenant) -> AsyncIterator[None]:
    """`kubectl label pod X ray.io/node-type-`, of a worker; the label comes back at the end."""
    workers = [pod for pod in sick.objects(PODS) if "worker" in pod["metadata"]["name"]]
    name = workers[0]["metadata"]["name"]
    patch: Manifest = {"metadata": {"labels": {LABEL: None}}}
    await sick.user.merge_patch(PODS, sick.namespace, name, patch)
    yield
    patch["metadata"]["labels"][LABEL] = "worker"
    with suppress(NotFound):
        await sick.user.merge_patch(PODS, sick.namespace, name, patch)


@asynccontextmanager
async def deleted_at_once(sick: Tenant) -> AsyncIterator[None]:
    """Another controller deletes each pod as soon as it runs."""

    async def react(user: Any, event: Any) -> None:
        pod = event.current.object
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            await user.delete(PODS, sick.namespace, pod["metadata"]["name"])

    with sick.reacting(PODS, react):
        yield


@asynccontextmanager
async def evicted_from_a_silent_ray(sick: Tenant) -> AsyncIterator[None]:
    """Their nodes are emptied one after the other, and Ray never answers the drains."""

    async def evict() -> None:
        workers = [pod for pod in sick.objects(PODS) if "worker" in pod["metadata"]["name"]]
        staying = [pod for pod in workers if "deletionTimestamp" not in pod["metadata"]]
        if staying:
            await sick.user.delete(PODS, sick.namespace, staying[0]["metadata"]["name"])

    sick.ray.fault(Fault.SILENT)
    async with sick.meanwhile(evict, every=150.0):
        yield
    sick.ray.fault(None)


SICKNESSES = (
    Sickness(
        name="pods crash again and again",
        course=pods_that("crash"),
        named="CrashLoopBackOff|exit code 1",
    ),
    Sickness(
        name="workers crash again and again",
        course=pods_that("crash", groups="workers"),
        named=unless_it_serves("CrashLoopBackOff|exit code 1"),
    ),
    Sickness(
        name="the history server's storage is not reached",
        course=storing_nowhere,
        named=f"CrashLoopBackOff.*container {COLLECTOR} last ended with exit code 1",
    ),
    Sickness(
        name="pods are evicted again and again",
        course=pods_that("fail"),
        named=r"Evicted.*low on resource.*\d times in a row.*not replaced before",
        slow=True,
    ),
    Sickness(
        name="pods find no node",
        course=pods_that("hang-pending"),
        named="Unschedulable|no node|not scheduled|cannot be scheduled",
    ),
    Sickness(
        name="images cannot be pulled",
        course=pods_that("image-pull-error"),
        named="ImagePullBackOff.*correct the image",
    ),
    Sickness(
        name="pods never become ready",
        course=pods_that("never-ready"),
        named="(head|group).*(not ready|readiness)",
    ),
    Sickness(
        name="pods are deleted as soon as they run",
        course=deleted_at_once,
        named=r"PodDeleted.*deleted by another client.*\d times in a row.*audit log",
        slow=True,
    ),
    Sickness(
        name="a label is taken off a pod",
        course=unlabelled,
        late=True,
        named={
            "RayCluster": "CacheDisagrees.*not in the watched selection; put back the labels",
            "RollingUpdate": "",  # the pod is replaced like all others
        },
        only=frozenset({"RayCluster"}),  # other kinds have their pods through one
    ),
    Sickness(
        name="workers are evicted and no drain is answered",
        course=evicted_from_a_silent_ray,
        only=UPGRADES | {"RayCluster"},
        late=True,
    ),
)
