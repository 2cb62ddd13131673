"""What is not as it was asked for: the state that every cluster must reach and keep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.simulation.rivals import is_theirs
from tests.simulation.rolling_wish import edition_of
from tests.simulation.wishes import wish_of

Object = dict[str, Any]


def shortcomings(clusters: list[Object], pods: list[Object], services: list[Object]) -> list[str]:
    """Sentences; none if all clusters are what they should be."""
    ours = [pod for pod in pods if _label(pod, "node-type") in {"head", "worker"}]
    wrong = [sentence for cluster in clusters for sentence in _status(cluster)]
    wrong += [f"pod {_name(pod)} is not ready" for pod in ours if not _is_ready(pod)]
    wrong += _numbers(clusters, ours)
    wrong += _replicas(clusters, ours)
    wrong += _editions(clusters, ours)
    wrong += [f"pod {_name(pod)} is still draining" for pod in ours if _drains(pod)]
    present = {cluster["metadata"]["uid"] for cluster in clusters}
    disputed = [each for each in services if _owner(each) in present and is_theirs(each)]
    wrong += [f"service {_name(each)} is not repaired" for each in disputed]
    return wrong


def contested(objects: Iterable[Object]) -> list[str]:
    """Sentences on objects that name another writer, as they do for minutes after a repair."""
    return [
        f"{_name(each)} still says who has changed its fields"
        for each in objects
        if _is_true(each, "FieldsContested")
    ]


def _status(cluster: Object) -> Iterator[str]:
    name, status = _name(cluster), cluster.get("status", {})
    if "deletionTimestamp" in cluster["metadata"]:
        yield f"{name} is not gone; finalizers {cluster['metadata'].get('finalizers')}"
        return
    state = "suspended" if _is_suspended(cluster) else "ready"
    if status.get("state") != state:
        yield f"{name} is {status.get('state')!r}, not {state!r}"
    if status.get("observedGeneration") != cluster["metadata"]["generation"]:
        yield f"{name} observed generation {status.get('observedGeneration')}"
    guarded = "ray.io/gcs-ft-redis-cleanup-finalizer" in cluster["metadata"].get("finalizers", ())
    if state == "ready" and wish_of(cluster).redis and not guarded:
        yield f"{name} has no finalizer that cleans up Redis"
    if state == "ready" and not _is_true(cluster, "Ready"):
        yield f"{name} has conditions {status.get('conditions')}"


def _numbers(clusters: list[Object], pods: list[Object]) -> Iterator[str]:
    wanted: Counter[tuple[str, str]] = Counter()
    names = {cluster["metadata"]["uid"]: _name(cluster) for cluster in clusters}
    for cluster in clusters:
        if not _is_suspended(cluster):
            uid, wish = cluster["metadata"]["uid"], wish_of(cluster)
            wanted[uid, "head"] = 1
            wanted.update({(uid, name): group.pods for name, group in wish.groups.items()})
    found = Counter((_owner(pod), _group(pod)) for pod in pods)
    for key in sorted(wanted.keys() | found.keys()):
        if wanted[key] != found[key]:
            owner = names.get(key[0], key[0])
            yield f"{owner} has {found[key]} pods of {key[1]!r}, not {wanted[key]}"


def _replicas(clusters: list[Object], pods: list[Object]) -> Iterator[str]:
    """Multi-host replicas that are not complete."""
    hosts = {
        (cluster["metadata"]["uid"], name): group.hosts
        for cluster in clusters
        for name, group in wish_of(cluster).groups.items()
        if group.hosts > 1
    }
    replicas: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for pod in pods:
        if (_owner(pod), _group(pod)) in hosts:
            replica = (_owner(pod), _group(pod), _label(pod, "worker-group-replica-name"))
            replicas[replica].add(_label(pod, "replica-host-index"))
    for (owner, group, name), found in replicas.items():
        if sorted(found) != [str(number) for number in range(hosts[owner, group])]:
            yield f"replica {name!r} of {group} has hosts {sorted(found)}"


def _editions(clusters: list[Object], pods: list[Object]) -> Iterator[str]:
    """Pods that a rolling update has left behind."""
    for cluster in clusters:
        wish = wish_of(cluster)
        if wish.rolling is None or _is_suspended(cluster):
            continue
        upgrading = _condition(cluster, "Upgrading")
        head_stays = upgrading.get("reason") == "HeadNeedsFaultTolerance" and not wish.keeps_state
        if upgrading.get("status") == "True" and not head_stays:
            yield f"{_name(cluster)} is still being upgraded: {upgrading}"
        for pod in pods:
            if _owner(pod) != cluster["metadata"]["uid"]:
                continue
            is_head = _group(pod) == "head"
            wanted = wish.head_edition if is_head else wish.edition(_group(pod))
            found = edition_of(pod["spec"])
            if found != wanted and not (is_head and head_stays):
                yield f"{_name(pod)} is of edition {found!r}, not {wanted!r}"


def _is_suspended(cluster: Object) -> bool:
    """Asked to be, or was and has not been told to resume."""
    suspend = cluster["spec"].get("suspend") or cluster["spec"].get("idleSuspend")
    return bool(suspend) or (suspend is None and _is_true(cluster, "RayClusterSuspended"))


def _drains(pod: Object) -> bool:
    return "manta.dev/draining-since" in (pod["metadata"].get("annotations") or {})


def _is_true(cluster: Object, kind: str) -> bool:
    return _condition(cluster, kind).get("status") == "True"


def _condition(cluster: Object, kind: str) -> Object:
    conditions = cluster.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _name(obj: Object) -> str:
    return obj["metadata"]["name"]


def _owner(pod: Object) -> str:
    references = pod["metadata"].get("ownerReferences", [])
    return next((r["uid"] for r in references if r.get("controller")), "")


def _group(pod: Object) -> str:
    return "head" if _label(pod, "node-type") == "head" else _label(pod, "group")


def _label(obj: Object, name: str) -> str:
    return (obj["metadata"].get("labels") or {}).get(f"ray.io/{name}", "")
