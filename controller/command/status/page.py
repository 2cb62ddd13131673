"""Makes what the templates show of what was read; it draws nothing and asks nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import conditions_of, mapping, mappings, status_of
from controller.command.output import duration
from controller.command.status.objects import GroupStatus, ObjectStatus, Tree
from controller.command.status.reading import Seen, SeenEvent
from controller.command.status.run import colour_of, condition_text, event_text
from controller.command.status.tree import overview
from controller.kube.objects import Pod
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.names import DASHBOARD_PORT, RayObject
from controller.ray.api.pod_state import condition, is_head, is_ready

ROWS: Final = 100
"""Objects, pods of a group, events and the like that one page shows at most."""

_WAITS: Final = 20
_WAIT_BOUNDS: Final = (2, 10, 60, 600)
_LEAST_SPAN: Final = timedelta(seconds=10)


class Segment(Struct, frozen=True):
    """A part of a bar: where it begins and how long it is, in per cent; `title` says it."""

    colour: str
    start: float
    width: float
    title: str


class Bar(Struct, frozen=True):
    """A bar of a chart; `value` stands in the table that says the same."""

    label: str
    value: str
    segments: tuple[Segment, ...]


class Query(Struct, frozen=True):
    """What a list shows: kind (`rayclusters`), namespace, text in names, state; page from 1."""

    kind: str = ""
    namespace: str = ""
    text: str = ""
    state: str = ""
    page: int = 1


class Listing(Struct, frozen=True):
    """One page of the objects that a query finds, and charts of all of them."""

    objects: Sequence[ObjectStatus]
    found: int
    page: int
    pages: int
    states: Sequence[tuple[str, int]]
    kinds: Sequence[Bar]
    pods: Sequence[Bar]
    waits: Sequence[Bar]
    missing: Sequence[str]


def listing(seen: Seen, query: Query, now: datetime) -> Listing:
    """Return one page of the objects."""
    every = overview(seen, None)
    kinds = {resource.kind: resource.plural for resource in seen.objects}
    wanted = [
        each
        for each in every.objects
        if query.kind in {"", kinds.get(each.kind)}
        and query.text.lower() in f"{each.namespace}/{each.name}".lower()
    ]
    states = Counter(each.state for each in wanted)
    found = [each for each in wanted if query.state in {"", each.state}]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(1, query.page), pages)
    by_kind: dict[str, Counter[str]] = {}
    for each in every.objects:
        by_kind.setdefault(each.kind, Counter())[each.state] += 1
    return Listing(
        found[(page - 1) * ROWS : page * ROWS],
        len(found),
        page,
        pages,
        states.most_common(),
        [_counted(f"{kind}s", counts) for kind, counts in by_kind.items()],
        [_counted("Pods", Counter(map(_state_of, seen.pods)))] if seen.pods else [],
        _distribution(seen.pods, now),
        every.missing,
    )


class Moment(Struct, frozen=True):
    """Something that happened: `at` is its place on the line of time, in per cent."""

    time: datetime
    at: float
    lane: str
    what: str
    colour: str


class Details(Struct, frozen=True):
    """An object with all that the page says of it.

    Attributes:
        spans: the attempts, as bars on the same line of time as the moments.
        begin: when that line begins; it ends now.
        attempts: `status.attempts` of a RayJob, the last one first.
        waits: bars of how long the slowest pods waited for a node, and then until they were ready.
        dashboards: the clusters of the tree and how to reach Ray's dashboard.
        log_pod: the pod whose log is shown; None if there is none.
    """

    moments: Sequence[Moment]
    spans: Sequence[Bar]
    begin: datetime
    attempts: Sequence[Mapping[str, Any]]
    groups: Sequence[Bar]
    waits: Sequence[Bar]
    dashboards: Sequence[tuple[str, str, str]]
    log_pod: Pod | None


def details(
    seen: Seen,
    obj: RayObject,
    found: Tree,
    now: datetime,
    *,
    log_of: str = "",
    direct: bool = False,
) -> Details:
    """Return what the page of an object shows.

    `log_of` names the pod whose log is wanted, by default the job's last submitter; `direct` tells
    whether the addresses of pods can be reached from the browser.
    """
    names = frozenset(_pod_names(found.object))
    members = [pod for pod in seen.pods if pod.metadata.name in names]
    by_age = sorted(members, key=lambda each: each.metadata.creation_timestamp or "")
    submitters = [each for each in by_age if _role(each) == labels.SUBMITTER]
    wanted = [each for each in by_age if each.metadata.name == log_of] if log_of else submitters
    attempts = mappings(status_of(obj).get("attempts"))
    begin, moments, spans = _history(obj, attempts, seen.events, now)
    return Details(
        moments,
        spans,
        begin,
        attempts[::-1],
        [_group(each) for each in _groups(found.object)],
        _waits(members, now),
        [*_dashboards(seen, found.object, direct=direct)],
        wanted[-1] if wanted else None,
    )


def events_wanted(found: Tree, most: int) -> list[tuple[str, str]]:
    """Return kind and name of the objects of a tree whose events say most, `most` at most."""
    top = found.object
    own = [(top.kind, top.name), *((each.kind, each.name) for each in top.children)]
    every = [*_objects(top)]
    groups = (each.pods for obj in every for each in obj.groups)
    pods = [each for some in (*groups, *(obj.pods for obj in every)) for each in some]
    pods = [each for each in pods if each.state != "ready"]
    return [*own, *(("Pod", each.name) for each in pods)][:most]


def dashboard_address(pod: Pod) -> str:
    """Return the URL of the dashboard of a head."""
    ports = (port for container in pod.spec.containers for port in container.ports)
    named = (port.container_port for port in ports if port.name == "dashboard")
    return f"http://{pod.status.pod_ip}:{next(named, DASHBOARD_PORT)}"


def _role(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(labels.NODE_TYPE, "")


def _objects(obj: ObjectStatus) -> Iterator[ObjectStatus]:
    yield obj
    for each in obj.children:
        yield from _objects(each)


def _groups(obj: ObjectStatus) -> list[GroupStatus]:
    return [group for each in _objects(obj) for group in each.groups]


def _pod_names(obj: ObjectStatus) -> Iterator[str]:
    for each in _objects(obj):
        yield from (pod.name for pod in each.pods)
        yield from (pod.name for group in each.groups for pod in group.pods)


def _dashboards(seen: Seen, obj: ObjectStatus, *, direct: bool) -> Iterator[tuple[str, str, str]]:
    """Yield each cluster, the URL of its dashboard, and the command that leads there."""
    names = {each.name for each in _objects(obj) if each.kind == RAYCLUSTERS.kind}
    for cluster in seen.objects.get(RAYCLUSTERS, []):
        name = cluster.metadata.name
        service = mapping(status_of(cluster).get("head")).get("serviceName")
        if name not in names or not service:
            continue
        heads = [
            pod
            for pod in seen.pods
            if is_head(pod)
            and is_ready(pod)
            and (pod.metadata.labels or {}).get(labels.CLUSTER) == name
        ]
        url = dashboard_address(heads[0]) if direct and heads else ""
        forward = f"kubectl -n {obj.namespace} port-forward service/{service} {DASHBOARD_PORT}"
        yield name, url, forward


# Charts.


def _bar(label: str, parts: Iterable[tuple[str, str, float]], total: float, value: str) -> Bar:
    """Return a bar of parts (title, colour, amount), one after the other."""
    segments: list[Segment] = []
    start = 0.0
    for title, colour, amount in parts:
        width = 100 * amount / total if total else 0.0
        segments.append(Segment(colour, round(start, 2), round(width, 2), title))
        start += width
    return Bar(label, value, tuple(segments))


def _counted(label: str, counts: Counter[str]) -> Bar:
    """Return a bar of states, what is well first."""
    order = {"green": 0, "yellow": 1, "red": 2}
    rows = sorted(counts.items(), key=lambda each: (order[colour_of(each[0])], each[0]))
    parts = [(f"{count} {state}", colour_of(state), float(count)) for state, count in rows]
    return _bar(label, parts, counts.total(), ", ".join(title for title, _, _ in parts))


def _group(group: GroupStatus) -> Bar:
    counts = Counter(each.state for each in group.pods)
    if (lacking := group.desired - len(group.pods)) > 0:
        counts["missing"] = lacking
    label = "head" if group.name == labels.HEAD_GROUP else group.name
    return _counted(label, counts)


def _state_of(pod: Pod) -> str:
    """Return one word for a pod in an overview of many."""
    if pod.metadata.terminating:
        return "deleting"
    if is_ready(pod):
        return "ready"
    if pod.status.phase == "Failed":
        return "Failed"
    if pod.status.phase == "Succeeded":
        return "ended"
    return "starting" if pod.spec.node_name else "waiting for a node"


def _wait(pod: Pod, now: datetime) -> tuple[float, float]:
    """Return the seconds that a pod waited for a node, and then until it was ready."""
    created = time_of(pod.metadata.creation_timestamp) or now
    scheduled = condition(pod, "PodScheduled")
    placed = now
    if scheduled is not None and scheduled.status == "True":
        placed = time_of(scheduled.last_transition_time) or now
    ready, at = condition(pod, "Ready"), placed
    if placed < now:
        well = ready is not None and ready.status == "True"
        at = (time_of(ready.last_transition_time) or now) if ready and well else now
        if pod.status.phase in {"Succeeded", "Failed"}:
            at = placed
    seconds = (placed - created).total_seconds(), (at - placed).total_seconds()
    return max(0.0, seconds[0]), max(0.0, seconds[1])


def _waits(pods: Sequence[Pod], now: datetime) -> list[Bar]:
    """Return bars of the slowest pods."""
    rows = sorted(((*_wait(pod, now), pod.metadata.name) for pod in pods), reverse=True)[:_WAITS]
    longest = max((queue + start for queue, start, _ in rows), default=0.0)
    return [
        _bar(
            name,
            (
                (f"{duration(queue)} until it had a node", "yellow", queue),
                (f"{duration(start)} until it was ready", "green", start),
            ),
            longest,
            f"{duration(queue)} for a node" + (f", {duration(start)} to be ready" if start else ""),
        )
        for queue, start, name in rows
    ]


def _distribution(pods: Sequence[Pod], now: datetime) -> list[Bar]:
    """Return bars of how many pods waited how long for a node."""
    if not pods:
        return []
    titles = [f"less than {duration(bound)}" for bound in _WAIT_BOUNDS]
    titles.append(f"{duration(_WAIT_BOUNDS[-1])} or more")
    counts = Counter[str]()
    for pod in pods:
        seconds = _wait(pod, now)[0]
        counts[titles[sum(seconds >= bound for bound in _WAIT_BOUNDS)]] += 1
    most = max(counts.values())
    colours = ["green", "green", "yellow", "yellow", "red"]
    return [
        _bar(title, [(f"{counts[title]} pods", colour, counts[title])], most, str(counts[title]))
        for title, colour in zip(titles, colours, strict=True)
    ]


def _history(
    obj: RayObject,
    attempts: Sequence[Mapping[str, Any]],
    events: Iterable[SeenEvent],
    now: datetime,
) -> tuple[datetime, list[Moment], list[Bar]]:
    """Return the beginning of the line of time, what happened on it, and the attempts."""
    told = [
        (time, "condition", condition_text(each), "blue")
        for each in conditions_of(obj)
        if (time := time_of(each.get("lastTransitionTime"))) is not None
    ]
    for event in sorted(events, key=lambda one: one.last)[-ROWS:]:
        colour = "red" if event.type == "Warning" else "green"
        told.append((event.last, "event", event_text(event), colour))
    told.sort()
    begin = time_of(obj.metadata.creation_timestamp) or now
    begin = min([begin, *(time for time, *_ in told)])
    span = max(now - begin, _LEAST_SPAN)

    def at(time: datetime) -> float:
        return round(min(100.0, max(0.0, 100 * ((time - begin) / span))), 2)

    moments = [Moment(time, at(time), lane, what, colour) for time, lane, what, colour in told]
    return begin, moments, [_attempt(each, at, now) for each in attempts]


def _attempt(attempt: Mapping[str, Any], at: Any, now: datetime) -> Bar:
    began, ended = time_of(attempt.get("startTime")), time_of(attempt.get("endTime"))
    label, result = f"attempt {attempt.get('number')}", str(attempt.get("result") or "running")
    if began is None:
        return Bar(label, result, ())
    took = duration(max(0.0, ((ended or now) - began).total_seconds()))
    start, end = at(began), at(ended or now)
    colour = {"Failed": "red", "running": "blue"}.get(result, "green")
    segment = Segment(colour, start, round(max(0.5, end - start), 2), f"{label}: {result}, {took}")
    return Bar(label, f"{result}, {took}", (segment,))
