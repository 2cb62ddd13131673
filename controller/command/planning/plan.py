"""`manta plan`: read manifests or take the objects that there are, plan for them, print."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

import controller
from controller.command.clock import wall
from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.planning.planner import Planner
from controller.command.planning.subjects import subjects
from controller.command.planning.text import write_text
from controller.devcluster.apiserver import ApiServer
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError, KubeError
from controller.kube.http import HttpTransport
from controller.kube.load import load_credentials
from controller.kube.resources import CRDS
from controller.ray.api import custom_resource_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Container, Iterator
    from pathlib import Path

    from controller.command.planning.outcome import Action, ObjectPlan
    from controller.ray.api import FeatureGates

Json = dict[str, Any]
USER_AGENT = f"manta-plan/{controller.__version__}"

_LISTS: Final = {"RayCluster": "clusters", "RayJob": "jobs", "RayCronJob": "cronJobs"}

MOST_PODS = 100_000
"""Pods that one plan may create here: all at once, where the operator goes batch by batch."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to plan for.

    Attributes:
        file: a manifest, or a folder of them; None for everything that there is.
        namespace: for manifests that name none; of the objects, empty for all namespaces.
        offline: plan for an empty cluster instead of asking one.
        feature_gates: as the operator has them.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.
    """

    file: Path | None
    namespace: str
    offline: bool
    feature_gates: FeatureGates
    kubeconfig: str | None
    context: str | None


async def plan(
    question: Question, output: Literal["text", "json"], *, forbidden: Collection[Action] = ()
) -> int:
    """Print what the operator would do; returns the exit status.

    Args:
        question: what to plan for.
        output: text for people or JSON for programs.
        forbidden: what must not happen to anything.

    Raises:
        ConfigurationError: unusable file, credentials or API server.
    """
    settings = KindSettings.from_environment(question.feature_gates)
    known = subjects(replace(settings, cluster=replace(settings.cluster, batch=MOST_PODS)))
    manifests = list(_plannable(load(question.file), known)) if question.file else None
    if manifests == []:
        kinds = " and no ".join(known)
        raise ConfigurationError(f"{question.file} holds no {kinds} of ray.io/v1")
    opened = _embedded() if question.offline else _connected(question)
    async with opened as client:
        try:
            plans = await _plans(Planner(client, known, wall()), question, manifests)
        except KubeError as error:
            raise ConfigurationError(f"cannot ask the cluster: {error}") from error
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(_by_kind(plans)), indent=2)
        sys.stdout.write(f"{text.decode()}\n")
    else:
        write_text(plans, sys.stdout)
    if any(each.problem for each in plans):
        return 1
    broken = sorted(action for action in forbidden if any(each.count(action) for each in plans))
    if broken:
        sys.stderr.write(f"manta plan: forbidden, and would happen: {', '.join(broken)}\n")
    return 3 if broken else 0


async def _plans(
    planner: Planner, question: Question, manifests: list[Json] | None
) -> list[ObjectPlan]:
    if manifests is None:
        return await planner.for_existing(question.namespace)
    namespace = question.namespace or "default"
    return [await planner.for_manifest(manifest, namespace) for manifest in manifests]


def _by_kind(plans: list[ObjectPlan]) -> dict[str, list[ObjectPlan]]:
    """`clusters`, and a list for each other kind that there is a plan for."""
    found: dict[str, list[ObjectPlan]] = {"clusters": []}
    for plan in plans:
        found.setdefault(_LISTS[plan.kind], []).append(plan)
    return found


def _plannable(documents: list[Json], known: Container[str]) -> Iterator[Json]:
    for document in documents:
        if document.get("kind", "") in known:
            yield document
        else:
            meta: Json = document.get("metadata") or {}
            name = meta.get("name", "without name")
            sys.stderr.write(f"manta plan: left out {document.get('kind')} {name}\n")


@asynccontextmanager
async def _connected(question: Question) -> AsyncGenerator[Client]:
    try:
        credentials = await load_credentials(
            kubeconfig=question.kubeconfig, context=question.context
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; --offline plans without a cluster") from error
    transport = HttpTransport(credentials, user_agent=USER_AGENT)
    try:
        yield Client(transport, user_agent=USER_AGENT, clock=asyncio.get_running_loop())
    finally:
        await transport.aclose()


@asynccontextmanager
async def _embedded() -> AsyncGenerator[Client]:
    loop = asyncio.get_running_loop()
    server = ApiServer(wall=wall, clock=loop, rng=random.Random(0))
    client = Client(server, user_agent=USER_AGENT, clock=loop)
    try:
        for crd in custom_resource_definitions():
            await client.create(CRDS, "", crd)
        yield client
    finally:
        await server.aclose()
