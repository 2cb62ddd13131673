"""The API server refuses the operator's requests in one namespace."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import KAITO, UPGRADES, Course, Sickness, unless_it_serves
from tests.ray.dashboard.simulated import incarnation

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", KubeObject)
DENIES = ErrorResponse(
    400,
    "BadRequest",
    'admission webhook "validate.example.com" denied the request: every object needs a team',
)
IS_DOWN = ErrorResponse(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "validate.example.com": failed to call '
    'webhook: Post "https://policies.example.svc:443/validate?timeout=10s": dial tcp 10.0.0.7:443: '
    "connect: connection refused",
)
VARYING = 'admission webhook "validate.example.com" denied the request: request {n} refused'
NEEDS_TEAM = "every object needs a team; change .*or ask for another policy"
UNAVAILABLE = "AdmissionUnavailable.*validate.example.com.*; repair the service of the webhook"
RIGHT = (
    'pods is forbidden: User "system:serviceaccount:manta:manta-operator" cannot {verb} resource '
    '"{plural}" in API group "{group}" in the namespace "sick"'
)


def no_right_to(verb: str) -> str:
    """What every kind must say."""
    return f"Forbidden.*allow system:serviceaccount:manta:manta-operator the verb {verb}"


def refused(answer: ErrorResponse, resource: str, *verbs: str) -> Course:
    return lambda sick: sick.disturbed(answer, resource, *verbs)


def children_refused(answer: ErrorResponse, *verbs: str) -> Course:
    """What the operator creates for the kind is refused."""
    return lambda sick: sick.disturbed(answer, sick.column.creates, *(verbs or ("create",)))


def own_refused(answer: ErrorResponse, *verbs: str) -> Course:
    """What the operator writes to the objects themselves is refused."""
    return lambda sick: sick.disturbed(answer, str(sick.column.resource), *verbs)


def no_right(verb: str, resource: str) -> ErrorResponse:
    plural, _, group = resource.partition(".")
    return ErrorResponse(
        403, "Forbidden", RIGHT.replace("{verb}", verb).format(plural=plural, group=group)
    )


def deletions_refused(answer: ErrorResponse) -> Course:
    """A cluster is to shrink, and its pods cannot be deleted."""

    @asynccontextmanager
    async def course(sick: Tenant) -> AsyncIterator[None]:
        operation = {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 0}
        with sick.disturbed(answer, "pods", "delete"):
            for each in sick.objects(RAYCLUSTERS):
                name = each["metadata"]["name"]
                await sick.user.json_patch(RAYCLUSTERS, sick.namespace, name, [operation])
            yield

    return course


@asynccontextmanager
async def quota(sick: Tenant) -> AsyncIterator[None]:
    """A quota that leaves room for one pod."""
    hard: dict[str, Any] = {"spec": {"hard": {"pods": "1"}}, "metadata": {"name": "team"}}
    body = {"apiVersion": "v1", "kind": "ResourceQuota"} | hard
    await sick.user.create(QUOTAS, sick.namespace, body)
    yield
    await sick.user.delete(QUOTAS, sick.namespace, "team")


@asynccontextmanager
async def moving_quota(sick: Tenant) -> AsyncIterator[None]:
    """A quota whose room for pods changes every 20 s, and is too small each time."""
    sizes = itertools.cycle(("1", "0", "2"))

    async def resize() -> None:
        hard = {"spec": {"hard": {"pods": next(sizes)}}}
        await sick.user.merge_patch(QUOTAS, sick.namespace, "team", hard)

    async with quota(sick), sick.meanwhile(resize, every=20.0):
        yield


@asynccontextmanager
async def policies_refused(sick: Tenant) -> AsyncIterator[None]:
    """Clusters ask for network policies, and the operator has no right to create them."""
    plural = "networkpolicies.networking.k8s.io"
    with (
        sick.disturbed(no_right("create", plural), plural, "create"),
        sick.altered(lambda spec: spec.update(networkPolicy={})),
    ):
        yield


@asynccontextmanager
async def budgets_refused(sick: Tenant) -> AsyncIterator[None]:
    """A cluster in use asks for disruption budgets, which the operator may not create."""
    plural = "poddisruptionbudgets.policy"

    async def use() -> None:
        for pod in sick.rays.heads():
            sick.ray.connect_driver(incarnation(sick.rays.head_of(pod)))

    with (
        sick.disturbed(no_right("create", plural), plural, "create"),
        sick.altered(lambda spec: spec.update(disruptionBudgets={})),
    ):
        async with sick.meanwhile(use, every=5.0):
            yield


SICKNESSES = (
    Sickness(
        name="a quota of one pod",
        course=quota,
        spares=KAITO,  # here and below: they create no pods
        named=unless_it_serves("exceeded quota: team.*lower replicas"),
    ),
    Sickness(
        name="a quota whose size changes",
        course=moving_quota,
        spares=KAITO,
        named=dict.fromkeys(("RayCluster", "RayClusterFleet"), "exceeded quota: team"),
    ),
    Sickness(
        name="a webhook denies what the kind creates",
        course=children_refused(DENIES),
        named=NEEDS_TEAM,
    ),
    Sickness(
        name="a webhook denies services",
        course=refused(DENIES, "services", "create"),
        spares=UPGRADES,  # their services are there already
        named=NEEDS_TEAM,
    ),
    Sickness(
        name="a webhook denies in varying words",
        course=children_refused(ErrorResponse(400, "BadRequest", VARYING)),
        named="request .* refused; change .*or ask for another policy",
    ),
    Sickness(
        name="a webhook is down for what the kind creates",
        course=children_refused(IS_DOWN),
        named=UNAVAILABLE,
    ),
    Sickness(
        name="a webhook is down for pods",
        course=refused(IS_DOWN, "pods", "create"),
        spares=KAITO,
        named=UNAVAILABLE,
    ),
    Sickness(
        name="a webhook is down for services",
        course=refused(IS_DOWN, "services", "create"),
        spares=UPGRADES,  # their services are there already
        named=UNAVAILABLE,
    ),
    Sickness(
        name="a webhook is down for updates of the kind",
        course=own_refused(IS_DOWN, "patch", "update"),
        named="FailedUpdate.*validate.example.com",
    ),
    Sickness(
        name="no right to create what the kind creates",
        course=lambda sick: sick.disturbed(
            no_right("create", sick.column.creates), sick.column.creates, "create"
        ),
        named=no_right_to("create"),
    ),
    Sickness(
        name="no right to create services",
        course=refused(no_right("create", "services"), "services", "create"),
        spares=UPGRADES,  # their services are there already
        named=no_right_to("create"),
    ),
    Sickness(
        name="no right to create network policies",
        course=policies_refused,
        spares=UPGRADES | KAITO,  # the cluster that is upgraded was created without
        named=unless_it_serves(no_right_to("create")),
    ),
    Sickness(
        name="no right to create disruption budgets",
        course=budgets_refused,
        only=frozenset({"RayCluster"}),
        spares=UPGRADES,  # the cluster that is upgraded was created without
        named=no_right_to("create"),
    ),
    Sickness(
        name="no right to write the kind's status",
        course=lambda sick: sick.disturbed(
            no_right("patch", f"{sick.column.resource}"), str(sick.column.resource), "patch"
        ),
        named="FailedUpdate.*Forbidden.*cannot patch",
    ),
    Sickness(
        name="429 with Retry-After for one namespace",
        course=refused(
            ErrorResponse(429, "TooManyRequests", "later", retry_after=30), "", "create"
        ),
        named="TooManyRequests|later",
    ),
    Sickness(
        name="what the kind creates is too large",
        course=children_refused(ErrorResponse(413, "RequestEntityTooLarge", "limit is 3145728")),
        named="limit is 3145728; make .* smaller",
    ),
    Sickness(
        name="a webhook is down for deletions",
        course=deletions_refused(IS_DOWN),
        only=frozenset({"RayCluster"}),  # here and below: no other kind deletes pods
        late=True,
        named=UNAVAILABLE,
    ),
    Sickness(
        name="no right to delete pods",
        course=deletions_refused(no_right("delete", "pods")),
        only=frozenset({"RayCluster"}),
        late=True,
        named=no_right_to("delete"),
    ),
    Sickness(
        name="changes of the kind are answered by 404",
        course=own_refused(ErrorResponse(404, "NotFound", "cannot find the resource"), "patch"),
        named="FailedUpdate.*(cannot find the resource|has no subresource status: install)",
    ),
    Sickness(
        name="each status conflicts",
        course=own_refused(ErrorResponse(409, "Conflict", "the object has been modified"), "patch"),
    ),
)
