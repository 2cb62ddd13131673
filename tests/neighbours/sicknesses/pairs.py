"""Two faults at once, and what must go on in spite of them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import DelayedRequest, ErrorResponse, LostRequest, LostResponse
from tests.neighbours.kinds import Manifest
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import KAITO, REQUESTS, UPGRADES, Sickness, unless_it_serves
from tests.neighbours.sicknesses.pods import LABEL
from tests.neighbours.sicknesses.refusals import DENIES, NEEDS_TEAM, quota

WRITES = ("create", "patch", "update", "delete")
CLUSTERS = frozenset({"RayCluster"})
TOGGLED = frozenset({"RayCluster", "RayJob", "RayCronJob"})
"""Kinds with a `spec.suspend` of their own."""

FLAP, TOGGLE = 10.0, 60.0
"""Seconds between two changes of readiness, and of `suspend`."""

EACH_TOGGLE = 15
"""Requests for each: pods, a status before and after, a third of them twice, and reads of what
became of them."""

HANGS = "hangs"
TIMED_OUT = ErrorResponse(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "validate.example.com": failed to call '
    'webhook: Post "https://policies.example.svc:443/validate?timeout=10s": context deadline '
    "exceeded",
)


@asynccontextmanager
async def flapping_pods_without_services(sick: Tenant) -> AsyncIterator[None]:
    """No service is admitted, and the readiness of all pods goes to and fro meanwhile."""
    turns = itertools.cycle(("False", "True"))

    async def flap() -> None:
        status = {"status": {"conditions": [{"type": "Ready", "status": next(turns)}]}}
        for pod in sick.objects(PODS):
            name = pod["metadata"]["name"]
            await sick.user.merge_patch(PODS, sick.namespace, name, status, subresource="status")

    with sick.disturbed(DENIES, "services", "create"):
        async with sick.meanwhile(flap, every=FLAP):
            yield
    tries = sick.requests()["create", "services"]
    if tries > REQUESTS * sick.keys():
        sick.street.findings.append(f"{tries} tries to create services")


@asynccontextmanager
async def full_quota_without_answer(sick: Tenant) -> AsyncIterator[None]:
    """The pod that fills the quota is created, and the operator does not hear of it."""

    def fills_it(_name: str) -> bool:
        return not sick.objects(PODS)

    async with quota(sick):
        with sick.disturbed(LostResponse(), "pods", "create", name=fills_it):
            yield


@asynccontextmanager
async def all_unlabelled(sick: Tenant) -> AsyncIterator[None]:
    """`kubectl label pods --all ray.io/node-type-`; the labels come back at the end."""
    roles = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in sick.objects(PODS)}

    async def label(name: str, role: str | None) -> None:
        patch: Manifest = {"metadata": {"labels": {LABEL: role}}}
        await sick.user.merge_patch(PODS, sick.namespace, name, patch)

    for name in roles:
        await label(name, None)
    yield
    if more := {pod["metadata"]["name"] for pod in sick.objects(PODS)} - roles.keys():
        sick.street.findings.append(f"created beside pods that are there: {sorted(more)}")
    for name, labels in roles.items():
        await label(name, labels[LABEL])


@asynccontextmanager
async def toggled(sick: Tenant) -> AsyncIterator[None]:
    """Its user suspends the objects and goes on with them, again and again.

    Every third patch is lost, and so are the answers to the others. A RayCluster has followed each
    time before the next.
    """
    resource, toggles = sick.column.resource, 0
    lost = itertools.cycle((False, False, True))

    async def suspend(*, suspended: bool) -> None:
        for each in sick.objects(resource):
            name, patch = each["metadata"]["name"], {"spec": {"suspend": suspended}}
            await sick.user.merge_patch(resource, sick.namespace, name, patch)

    async def toggle() -> None:
        nonlocal toggles
        suspended, present = toggles % 2 == 1, bool(sick.objects(PODS))
        if resource is RAYCLUSTERS and toggles and present is suspended:
            what = "has pods" if present else "has no pods"
            sick.street.findings.append(f"{what} {TOGGLE:.0f} s after suspend: {suspended}")
        toggles += 1
        await suspend(suspended=not suspended)

    with (
        sick.disturbed(LostRequest(), "", "patch", name=lambda _name: next(lost)),
        sick.disturbed(LostResponse(), "", "patch"),
    ):
        async with sick.meanwhile(toggle, every=TOGGLE):
            yield
    await suspend(suspended=False)


@asynccontextmanager
async def unanswered(sick: Tenant) -> AsyncIterator[None]:
    """Every write is carried out and no answer arrives; what is wanted comes all the same."""
    column = sick.column

    def all_well() -> bool:
        names = [each["metadata"]["name"] for each in sick.objects(column.resource)]
        return bool(names) and all(sick.is_well(column, name) for name in names)

    with sick.disturbed(LostResponse(), "", *WRITES):
        async with sick.requiring(all_well, "not well without answers", within=300.0):
            yield


def add_group(spec: Manifest) -> None:
    """Add a worker group whose pods no webhook looks at, and give the first one a name."""
    [group] = spec["workerGroupSpecs"]
    spec["workerGroupSpecs"].append({**copy.deepcopy(group), "groupName": "beside"})
    group["groupName"] = HANGS


@asynccontextmanager
async def hanging_webhook(sick: Tenant) -> AsyncIterator[None]:
    """A webhook hangs at the pods of one group; another group is to have a worker more."""
    wanted = 0

    async def edit() -> None:
        nonlocal wanted
        for cluster in sick.objects(RAYCLUSTERS):
            wanted = cluster["spec"]["workerGroupSpecs"][1]["replicas"] + 1
            operations: list[dict[str, Any]] = [
                {"op": "replace", "path": "/spec/workerGroupSpecs/1/replicas", "value": wanted}
            ]
            name = cluster["metadata"]["name"]
            await sick.user.json_patch(RAYCLUSTERS, sick.namespace, name, operations)

    def done() -> bool:
        there = [pod for pod in sick.objects(PODS) if "-beside-" in pod["metadata"]["name"]]
        return 0 < wanted <= len(there)

    def concerns(name: str) -> bool:
        return f"-{HANGS}-" in name

    with (
        sick.altered(add_group),
        sick.disturbed(DelayedRequest(10), "pods", "create", name=concerns),
        sick.disturbed(TIMED_OUT, "pods", "create", name=concerns),
    ):
        sick.world.loop.call_later(60.0, lambda: sick.world.background(edit()))
        async with sick.requiring(done, "the other group did not get its worker", within=90.0):
            yield


SICKNESSES = (
    Sickness(
        name="a webhook denies services while pods flap",
        course=flapping_pods_without_services,
        spares=UPGRADES | KAITO,
        named=NEEDS_TEAM,
        requests=REQUESTS + round(600 / FLAP),  # each is reported
    ),
    Sickness(
        name="a full quota, and the answer about the last pod is lost",
        course=full_quota_without_answer,
        spares=UPGRADES | KAITO,  # a pod that is there already has filled it
        named=unless_it_serves("exceeded quota: team.*lower replicas"),
    ),
    Sickness(
        name="a label is taken off all pods",
        course=all_unlabelled,
        late=True,
        only=CLUSTERS,
        spares=UPGRADES,
        named="not in the watched selection; put back the labels",
    ),
    Sickness(
        name="suspend goes to and fro while patches are lost",
        course=toggled,
        only=TOGGLED,
        spares=UPGRADES,
        requests=EACH_TOGGLE * round(600 / TOGGLE),
    ),
    Sickness(name="no write is ever answered", course=unanswered),
    Sickness(
        name="a webhook hangs beside an edit of another group",
        course=hanging_webhook,
        only=CLUSTERS,
        spares=UPGRADES,
        named="AdmissionUnavailable.*validate.example.com",
    ),
)
