"""Kubernetes' own gangs, which a platform asks of every cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from controller.command.planning.offline import open_definitions
from controller.kube.resources import POD_GROUPS, WORKLOADS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import install_crds
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import UPGRADES, Sickness
from tests.neighbours.sicknesses.refusals import DENIES, NEEDS_TEAM

Manifest = dict[str, Any]

GANG = "ray.io/gang-scheduling-enabled"


def in_gangs(cluster: Manifest) -> None:
    cluster["metadata"].setdefault("labels", {})[GANG] = "true"


@asynccontextmanager
async def without_groups(sick: Tenant) -> AsyncGenerator[None]:
    """The API server has no groups; at the end nobody asks for gangs."""
    async with sick.corrected():
        with sick.mutating(str(RAYCLUSTERS), in_gangs):
            yield


@asynccontextmanager
async def gangs(sick: Tenant) -> AsyncGenerator[None]:
    """The API server has groups, and all clusters ask for them."""
    await install_crds(sick.world, *open_definitions(WORKLOADS, POD_GROUPS))
    with sick.mutating(str(RAYCLUSTERS), in_gangs):
        yield


@asynccontextmanager
async def refused_groups(sick: Tenant) -> AsyncGenerator[None]:
    async with gangs(sick):
        with sick.disturbed(DENIES, str(POD_GROUPS), "create"):
            yield


@asynccontextmanager
async def deleted_groups(sick: Tenant) -> AsyncGenerator[None]:
    async def delete() -> None:
        for group in sick.objects(POD_GROUPS):
            sick.street.strikes["reactions"] += 1
            await sick.user.delete(POD_GROUPS, sick.namespace, group["metadata"]["name"])

    async with gangs(sick), sick.meanwhile(delete, every=60.0):
        yield


ONLY = frozenset({"RayCluster", "RayJob", "RayService"})
SICKNESSES = (
    Sickness(
        name="gangs without Kubernetes' API for them",
        course=without_groups,
        spares=UPGRADES,
        named="SchedulingGroupMissing.*Kubernetes 1.36",
    ),
    Sickness(
        name="a webhook that refuses the groups of gangs", course=refused_groups, named=NEEDS_TEAM
    ),
    Sickness(name="somebody deletes the groups of gangs", course=deleted_groups),
)
SICKNESSES = tuple(replace(each, only=ONLY) for each in SICKNESSES)
