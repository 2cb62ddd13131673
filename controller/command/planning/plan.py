"""The command: plans for manifests or existing objects, and prints the plans."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

import msgspec

import controller
from controller.apimachinery.custom_object import mapping
from controller.command.connection import connected, with_remedy
from controller.command.kinds import GATED, kinds_to_plan
from controller.command.manifests import load
from controller.command.planning.offline import empty_cluster
from controller.command.planning.planner import Planner
from controller.command.planning.text import write_text
from controller.command.process import wall
from controller.kube.errors import ConfigurationError, KubeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection
    from pathlib import Path

    from controller.command.kinds import KindSettings
    from controller.command.planning.object_plan import Action, ObjectPlan
    from controller.kube.client import Client
    from controller.runtime.kind import Kind

Json = dict[str, Any]
USER_AGENT = f"manta-plan/{controller.__version__}"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The subject of a plan.

    Attributes:
        file: a manifest, or a folder of manifests; None for all existing objects.
        namespace: for manifests without one; of existing objects, where empty means all.
        offline: whether to plan for an empty cluster instead of a real one.
        settings: of the kinds, as the operator has them.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.
    """

    file: Path | None
    namespace: str
    offline: bool
    settings: KindSettings
    kubeconfig: str | None
    context: str | None


async def plan(
    request: PlanRequest, output: Literal["text", "json"], *, forbidden: Collection[Action] = ()
) -> int:
    """Print what the operator would do; returns the exit status.

    Args:
        request: what to plan for.
        output: text for people or JSON for programs.
        forbidden: actions that make the command fail if they would happen to any object, unless
            an upgrade that has begun already leads to them.

    Raises:
        ConfigurationError: unusable file, credentials or API server.
    """
    if request.offline and not request.file:
        raise ConfigurationError(
            "--offline plans for an empty cluster, so there are no existing objects: give a "
            "manifest with -f, or plan for the cluster without --offline"
        )
    kinds = kinds_to_plan(request.settings)
    plans = await _ask(request, kinds)
    _print(plans, kinds, output)
    if not plans:
        where = f"in namespace {request.namespace}" if request.namespace else "in the cluster"
        sys.stderr.write(f"manta plan: there is no object to plan for {where}\n")
    if any(each.problem or each.refusals for each in plans):
        return 1
    broken = sorted(action for action in forbidden if any(each.begins(action) for each in plans))
    if broken:
        sys.stderr.write(f"manta plan: forbidden, and would happen: {', '.join(broken)}\n")
    return 3 if broken else 0


async def _ask(request: PlanRequest, kinds: list[Kind[Any]]) -> list[ObjectPlan]:
    """Return the plans for the API server of the request."""
    manifests = _manifests(request.file, kinds) if request.file else None
    given = (mapping(each.get("metadata")).get("namespace") for each in manifests or ())
    namespaces = {request.namespace, *filter(None, given)} - {""}
    opened = (
        empty_cluster(USER_AGENT, request.settings, namespaces)
        if request.offline
        else _connected(request)
    )
    async with opened as client:
        try:
            return await _plans(Planner(client, kinds, wall()), request, manifests)
        except KubeError as error:
            raise ConfigurationError(f"cannot ask the cluster: {with_remedy(error)}") from error


def _print(
    plans: list[ObjectPlan], kinds: list[Kind[Any]], output: Literal["text", "json"]
) -> None:
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(_by_kind(plans, kinds)), indent=2)
        sys.stdout.write(f"{text.decode()}\n")
    else:
        write_text(plans, sys.stdout)


async def _plans(
    planner: Planner, request: PlanRequest, manifests: list[Json] | None
) -> list[ObjectPlan]:
    if manifests is None:
        return await planner.for_existing(request.namespace)
    namespace = request.namespace or "default"
    return [await planner.for_manifest(manifest, namespace) for manifest in manifests]


def _by_kind(plans: list[ObjectPlan], kinds: list[Kind[Any]]) -> dict[str, list[ObjectPlan]]:
    """Return the plans in one list for each served kind: `clusters`, `jobs`, `cronJobs`."""
    found: dict[str, list[ObjectPlan]] = {_list_name(kind.primary.kind): [] for kind in kinds}
    for plan in plans:
        found[_list_name(plan.kind)].append(plan)
    return found


def _list_name(kind: str) -> str:
    name = kind.removeprefix("Ray")
    return f"{name[0].lower()}{name[1:]}s"


def _manifests(file: Path, kinds: list[Kind[Any]]) -> list[Json]:
    """Return the manifests of served kinds; others are named on standard error.

    Raises:
        ConfigurationError: the file cannot be read, or no manifest is of a served kind.
    """
    groups = {kind.primary.kind: kind.primary.group for kind in kinds}
    found: list[Json] = []
    for document in load(file):
        kind = str(document.get("kind"))
        group = str(document.get("apiVersion", groups.get(kind))).partition("/")[0]
        if kind in groups and group == groups[kind]:
            found.append(document)
        else:
            left_out = f"{_described(document)}{_suggestion(kind, kinds)}"
            sys.stderr.write(f"manta plan: left out {left_out}\n")
    if not found:
        raise ConfigurationError(
            f"{file} holds none of the kinds that can be planned: "
            f"{', '.join(f'{kind.primary.kind} ({kind.primary.api_version})' for kind in kinds)}"
        )
    return found


def _described(document: Json) -> str:
    meta: Json = document.get("metadata") or {}
    version = document.get("apiVersion")
    of = f" of {version}" if version else ""
    return f"{document.get('kind')} {meta.get('name', 'without name')}{of}"


def _suggestion(kind: str, kinds: list[Kind[Any]]) -> str:
    if kind in GATED and all(each.primary.kind != kind for each in kinds):
        gates = ",".join(f"{gate}=true" for gate in GATED[kind])
        return f"; its feature gate is off: --feature-gates {gates}"
    served = {each.primary.kind: each.primary.api_version for each in kinds}
    near = get_close_matches(kind, served, n=1)
    if near == [kind]:
        return f"; it is served as {served[kind]}"
    return f"; did you mean {near[0]}?" if near else ""


@asynccontextmanager
async def _connected(request: PlanRequest) -> AsyncGenerator[Client]:
    opened = connected(USER_AGENT, kubeconfig=request.kubeconfig, context=request.context)
    async with AsyncExitStack() as stack:
        try:
            client, _ = await stack.enter_async_context(opened)
        except ConfigurationError as error:
            raise ConfigurationError(f"{error} --offline plans without a cluster.") from error
        yield client
