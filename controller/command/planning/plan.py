"""The command: plans for manifests or existing objects, printed as JSON or as lines."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

import controller
from controller.apimachinery.custom_object import mapping
from controller.command.connection import ConnectionOptions, connected, with_remedy
from controller.command.kinds import GATED, KindSettings, kinds_to_plan
from controller.command.manifests import load
from controller.command.output import CommandOutput, duration
from controller.command.planning.dry_run import Refusal
from controller.command.planning.net_changes import (
    Action,
    Difference,
    ObjectChange,
    ObjectPlan,
)
from controller.command.planning.offline import empty_cluster
from controller.command.planning.planner import Planner
from controller.command.planning.upgrades import (
    GroupStep,
    Rolling,
    RollingStep,
    RolloutPlan,
    RolloutStep,
)
from controller.command.process import wall
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError, KubeError
from controller.runtime.kind import Kind

Json = dict[str, Any]
USER_AGENT = f"manta-plan/{controller.__version__}"


class PlanRequest(ConnectionOptions, frozen=True):
    """The subject of a plan, with the settings of the kinds as the operator has them.

    Without a file it is about all existing objects, of a namespace or all; offline, about an empty
    cluster. The command fails if an action that it forbids would happen to any object, unless an
    upgrade that has begun already leads to it.
    """

    settings: KindSettings
    file: Path | None = None
    offline: bool = False
    forbid: Collection[Action] = ()


async def plan(request: PlanRequest) -> int:
    """Print what the operator would do; returns the exit status.

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
    if request.output == "json":
        CommandOutput(sys.stdout, as_json=True).document(_by_kind(plans, kinds))
    else:
        write_text(plans, sys.stdout)
    if not plans:
        where = f"in namespace {request.namespace}" if request.namespace else "in the cluster"
        sys.stderr.write(f"manta plan: there is no object to plan for {where}\n")
    if any(each.problem or each.refusals for each in plans):
        return 1
    broken = sorted(
        action for action in request.forbid if any(each.begins(action) for each in plans)
    )
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
        planner, namespace = Planner(client, kinds, wall()), request.namespace
        try:
            if manifests is None:
                return await planner.for_existing(namespace)
            return [await planner.for_manifest(each, namespace or "default") for each in manifests]
        except KubeError as error:
            raise ConfigurationError(f"cannot ask the cluster: {with_remedy(error)}") from error


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


# The steps of a rolling update as text; steps that differ in names only become one line.

_MOST_PODS: Final = 3


def rolling_lines(rolling: Rolling | None) -> Iterator[tuple[str, str]]:
    """Yield the lines with their styles; none without a rolling update."""
    if rolling is None:
        return
    yield "", "  its pods are replaced in these steps"
    number = 0
    for _, alike in groupby(rolling.steps, key=lambda step: step.shape):
        steps = list(alike)
        first, number = number + 1, number + len(steps)
        place = f"{first}." if len(steps) == 1 else f"{first}. to {number}., each:"
        yield "", f"    {place} {_rolling_step(steps[0], named=len(steps) == 1)}"
    yield "", f"  at the peak {rolling.peak}; {rolling.before} before, {rolling.after} after"
    yield "", f"  {_time(rolling)}"


def _rolling_step(step: RollingStep, *, named: bool) -> str:
    return "; ".join(_group(each, named=named) for each in step.groups)


def _group(each: GroupStep, *, named: bool) -> str:
    where = "head" if each.group == "headgroup" else f"group {each.group}"
    leaving = [name for name in each.deleted if name in each.drained]
    others = [name for name in each.deleted if name not in each.drained]
    parts = [
        f"{verb} {_pods(names, named=named)}"
        for verb, names in (("drain and delete", leaving), ("delete", others))
        if names
    ]
    if each.created:
        parts.append(f"create {_count(each.created)}")
    return f"{where}: {', '.join(parts)}"


def _pods(names: list[str], *, named: bool) -> str:
    shown = named and len(names) <= _MOST_PODS
    return ", ".join(names) if shown else _count(len(names))


def _count(pods: int) -> str:
    return "1 Pod" if pods == 1 else f"{pods} Pods"


def _time(rolling: Rolling) -> str:
    drains = ""
    if rolling.drains:
        longest = duration(rolling.drain_timeout_seconds)
        drains = f"; drains come on top, at most {longest} in each of the steps that drain"
    if rolling.seconds is None:
        groups = ", ".join(rolling.unmeasured)
        return f"how long that takes cannot be known: no ready pod of {groups} to measure{drains}"
    return (
        f"new pods need about {duration(rolling.seconds)} in all to be ready, if they take as long "
        f"as the present ones did{drains}"
    )


Line = tuple[str, str]  # a style of the output, and the text

_SIGNS: Final[dict[Action, tuple[str, str]]] = {
    "create": ("green", "+"),
    "change": ("yellow", "~"),
    "replace": ("magenta", "±"),
    "delete": ("red", "-"),
}
_MOST_NAMES: Final = 5
_ALL: Final = 100
_LONGEST_VALUE: Final = 100


def write_text(plans: Sequence[ObjectPlan], stream: TextIO) -> None:
    """Write all plans, in colour if the stream is a terminal and wants it."""
    output = CommandOutput(stream, as_json=False)
    for plan in plans:
        for style, text in text_of(plan):
            output.line(text, style)


def text_of(plan: ObjectPlan) -> Iterator[Line]:
    """Yield the lines of one plan."""
    state = "" if plan.exists else " (new)"
    yield "bold", f"{plan.kind} {plan.namespace}/{plan.name}{state}: {_summary(plan)}"
    if plan.problem:
        yield "red", f"  ! {plan.problem}"
    if plan.edits:
        yield "", "  the manifest changes"
        yield from (("yellow", f"    {_difference(edit)}") for edit in plan.edits)
    if plan.items:
        yield "", "  the operator would"
    for item in plan.items:
        style, sign = _SIGNS[item.action]
        yield style, f"    {sign} {_change(item)}"
        yield from ((style, f"        {_difference(each)}") for each in item.differences)
    yield from _rollout(plan.rollout)
    yield from rolling_lines(plan.rolling)
    for refusal in plan.refusals:
        yield "red", f"  ! {_refusal(refusal)}"
    for note in plan.notes:
        yield "cyan", f"  note: {note}"
    for sentence in plan.outlook:
        yield "", f"  later: {sentence}"


def _rollout(rollout: RolloutPlan | None) -> Iterator[Line]:
    if rollout is None:
        return
    yield "", "  in this order"
    before = 0
    for number, step in enumerate(rollout.steps, start=1):
        wait = f"after {step.seconds - before} s " if step.seconds > before else ""
        yield "", f"    {number}. {wait}{_step(step)}"
        before = step.seconds
    yield "", f"  at the peak {rollout.peak}; {rollout.before} before, {rollout.after} after"
    if rollout.autoscaled:
        yield "", "  besides workers that Ray's autoscaler adds, up to maxReplicas of each group"


def _step(step: RolloutStep) -> str:
    cluster = f"RayCluster {step.cluster}"
    match step.action:
        case "configure":
            return f"give {cluster} the new Serve config"
        case "change":
            return f"change {cluster} in place"
        case "scale":
            return f"scale Serve of {cluster} to {step.percent} %"
        case "route":
            share = "all" if step.percent == _ALL else f"{step.percent} % of the"
            return f"route {share} requests to {cluster}"
        case "create" | "delete":
            return f"{step.action} {cluster}"


def _summary(plan: ObjectPlan) -> str:
    if plan.problem:
        return "would be refused; nothing would be done"
    counts = [f"{plan.count(action)} to {action}" for action in _SIGNS if plan.count(action)]
    refused = sum(refusal.count for refusal in plan.refusals)
    if refused:
        counts.append(f"{refused} of them refused by the API server")
    return ", ".join(counts) or "nothing to do"


def _refusal(refusal: Refusal) -> str:
    what = refusal.kind if refusal.count == 1 else f"{refusal.count} {refusal.kind}s"
    return f"the API server would refuse {what} {refusal.name}: {refusal.message}"


def _change(change: ObjectChange) -> str:
    what = f"{change.action} {change.kind}"
    if change.group and change.group != "headgroup":
        pods = "Pod" if change.count == 1 else "Pods"
        what = f"{change.action} {change.count} {pods} of group {change.group}"
    elif change.group:
        what = f"{change.action} head {change.kind}"
    names = ", ".join(change.names[:_MOST_NAMES])
    if len(change.names) > _MOST_NAMES:
        names += f" and {len(change.names) - _MOST_NAMES} more"
    arrow = " -> ".join(filter(None, (names, change.new)))
    why = f" ({change.why})" if change.why else ""
    return f"{what}: {arrow}{why}"


def _difference(edit: Difference) -> str:
    if edit.old is None:
        return f"{edit.path}: + {_value(edit.new)}"
    if edit.new is None:
        return f"{edit.path}: - {_value(edit.old)}"
    return f"{edit.path}: {_value(edit.old)} -> {_value(edit.new)}"


def _value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
