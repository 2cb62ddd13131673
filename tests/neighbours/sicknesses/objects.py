"""The tenant creates odd objects."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from controller.command.planning.offline import open_definitions
from controller.kube.errors import NotFound
from controller.kube.resources import CERTIFICATES, ISSUERS, SECRETS
from controller.ray.settings import MANTA
from controller.testing.faults import ErrorResponse
from tests.integration.harness import install_crds
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import UPGRADES, Course, Sickness

Manifest = dict[str, Any]


NO_SECRETS = ErrorResponse(
    403,
    "Forbidden",
    "secrets is forbidden: exceeded quota: team, requested: count/secrets=1, used: "
    "count/secrets=5, limited: count/secrets=5",
)


def odd(alter: Callable[[Manifest], object]) -> Course:
    """Objects with an altered cluster; at the end their user deletes them and creates good ones."""

    @asynccontextmanager
    async def course(sick: Tenant) -> AsyncIterator[None]:
        async with sick.corrected():
            with sick.altered(alter):
                yield

    return course


def with_mtls(spec: Manifest) -> None:
    spec["tlsOptions"] = {"enabled": True}


@asynccontextmanager
async def never_issued(sick: Tenant) -> AsyncGenerator[None]:
    """cert-manager's API is installed, and nobody works behind it."""
    await install_crds(sick.world, *open_definitions(ISSUERS, CERTIFICATES))
    async with sick.corrected():
        with sick.altered(with_mtls):
            yield


@asynccontextmanager
async def secrets_refused(sick: Tenant) -> AsyncGenerator[None]:
    """A quota has no room for the Secrets of mTLS."""
    with sick.altered(with_mtls), sick.disturbed(NO_SECRETS, "secrets", "create"):
        yield


@asynccontextmanager
async def secrets_deleted(sick: Tenant) -> AsyncGenerator[None]:
    """Somebody deletes a Secret of mTLS from time to time, each in its turn."""
    turns = itertools.cycle(("-ca-secret-", "ray-head-secret-", "ray-worker-secret-"))

    async def delete() -> None:
        turn = next(turns)
        for found in sick.objects(SECRETS):
            if turn in found["metadata"]["name"]:
                await sick.user.delete(SECRETS, sick.namespace, found["metadata"]["name"])
                sick.street.strikes["deleted"] += 1

    with sick.altered(with_mtls):
        async with sick.meanwhile(delete, every=150.0):
            yield


@asynccontextmanager
async def damaged_authorities(sick: Tenant) -> AsyncGenerator[None]:
    """Somebody has put another key in the place of each authority, and removes it at the end."""
    names: set[str] = set()

    async def react(user: Any, event: Any) -> None:
        name = event.current.object["metadata"]["name"]
        if "-ca-secret-" in name and name not in names:
            names.add(name)
            await user.delete(SECRETS, sick.namespace, name)
            damaged = {"metadata": {"name": name}, "data": {"tls.key": "ZGFtYWdlZA=="}}
            await user.create(SECRETS, sick.namespace, damaged)

    with sick.altered(with_mtls):
        with sick.reacting(SECRETS, react):
            yield
        for name in names:
            with suppress(NotFound):
                await sick.user.delete(SECRETS, sick.namespace, name)


def head(spec: Manifest) -> Manifest:
    return spec["headGroupSpec"]["template"]["spec"]["containers"][0]


def nest(spec: Manifest) -> None:
    inner: Manifest = {}
    for _ in range(600):
        inner = {"a": inner}
    spec["headGroupSpec"]["template"]["spec"]["odd"] = inner


# An upgrade meets one odd template that is refused and one odd number: the others strike heads,
# which it does not replace, or are refused alike.
SICKNESSES = (
    Sickness(name="600 nested maps in a template", course=odd(nest), named="nested|deep"),
    Sickness(
        name="a variable of a megabyte",
        spares=UPGRADES,
        course=odd(lambda spec: head(spec).update(env=[{"name": "BIG", "value": "x" * 1_000_000}])),
    ),
    Sickness(
        name="a quantity of 5,000 digits",
        spares=UPGRADES,
        course=odd(lambda spec: head(spec)["resources"].update(limits={"cpu": "9" * 5000})),
        named="cpu",
    ),
    Sickness(
        name="a label of the wrong type",
        spares=UPGRADES,
        course=odd(
            lambda spec: spec["headGroupSpec"]["template"].update(metadata={"labels": {"a": 7}})
        ),
        named="label",
    ),
    Sickness(
        name="requests above limits",
        spares=UPGRADES,
        course=odd(lambda spec: head(spec)["resources"].update(limits={"cpu": "500m"})),
        named="must be less than or equal to cpu limit",
    ),
    Sickness(
        name="a quantity of workers that is none",
        course=odd(
            lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0].update(
                resources={"limits": {"cpu": "1 core"}}
            )
        ),
        named="'1 core' is not a quantity",
    ),
    Sickness(
        name="mTLS without cert-manager",
        spares=UPGRADES,
        course=odd(with_mtls),
        named="spec.tlsOptions needs cert-manager.*install cert-manager",
    ),
    Sickness(
        name="certificates that are never issued",
        spares=UPGRADES,
        course=never_issued,
        named="pods wait until it is issued; cert-manager has said nothing of it yet",
    ),
    Sickness(
        name="a quota without room for the Secrets of mTLS",
        spares=UPGRADES,
        course=secrets_refused,
        mtls_issuer=MANTA,
        named="Secret \\S+-ca-secret-.*exceeded quota.*ask for a larger quota",
    ),
    Sickness(
        name="somebody deletes Secrets of mTLS",
        spares=UPGRADES,
        course=secrets_deleted,
        mtls_issuer=MANTA,
        named={"RayCluster": "MTLSAuthorityReplaced: .*delete these pods, the head last"},
    ),
    Sickness(
        name="a damaged key in place of the authority of mTLS",
        spares=UPGRADES,
        course=damaged_authorities,
        mtls_issuer=MANTA,
        named="Secret \\S+-ca-secret-\\S+ exists.*delete that object",
    ),
    Sickness(
        name="a network policy for a group that does not exist",
        spares=UPGRADES,
        course=odd(lambda spec: spec.update(networkPolicy={"workerGroups": [{"groupName": "x"}]})),
        named="there is no worker group 'x'",
    ),
    Sickness(
        name="an unknown field in a template",
        spares=UPGRADES,
        course=odd(
            lambda spec: spec["headGroupSpec"]["template"]["spec"].update(nodeSelektor={"a": "b"})
        ),
        named="nodeSelektor",
    ),
)
