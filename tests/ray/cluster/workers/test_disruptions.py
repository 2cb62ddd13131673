"""Workers that others take away are drained in Ray, and replaced at once where they may be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import Node, Pod, Toleration
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.disruptions import OF_NODES
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.plan import plan_cluster
from controller.ray.cluster.rollout import DRAINED
from controller.ray.cluster.status import cluster_status
from controller.ray.dashboard.client import RayNode
from controller.ray.dashboard.commands import CommandRefused, HeadCommand
from controller.ray.dashboard.own_job import DrainNodes
from controller.ray.head import worker_scope
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, MergePatch, Plan, Write
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import NOW, cluster, pod, with_children, with_meta, with_status
from tests.ray.cluster.upgrade.rolling.scenes import (
    ADDRESS,
    HEAD,
    answering,
    draining,
    new,
    rolling,
    the_head,
    with_spec,
    without_rolling,
)

SETTINGS = RaySettings(watch_nodes=True)
ALIVE = answering(RayNode("n1", ADDRESS, alive=True))
DEAD = answering(RayNode("n1", ADDRESS, alive=False))
TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
SOON = rfc3339(NOW + timedelta(seconds=25))
ANNOUNCED = {labels.DISRUPTION: "its node node-1 is cordoned"}
CORDONED = {"unschedulable": True}
GRACEFUL: dict[str, Any] = {"gracefulTerminationOptions": {}}


def node(**spec: Any) -> Node:
    return msgspec.convert({"metadata": {"name": "node-1"}, "spec": spec}, Node)


def kept(
    raw: dict[str, Any],
    *pods: Pod,
    of: Node | None = None,
    of_head: str = "node-of-head",
    **more: Any,
) -> FakeReads:
    """The cache of an operator that may read nodes."""
    found = FakeReads(RayClusterKind(SETTINGS), **more).add(
        PODS, the_head(raw, node=of_head), *pods
    )
    counted = {"type": "HeadPodReady", "observedGeneration": 1}
    obj = with_status(cluster(raw), {"observedGeneration": 1, "conditions": [counted]})
    return with_children(found.add(RAYCLUSTERS, obj).add(OF_NODES[0].resource, of or node()))


def seen_in(reads: FakeReads, *, settings: RaySettings = SETTINGS, **changes: Any) -> Any:
    seen = RayClusterKind(settings).observe("default/example", reads)
    assert seen is not None
    if isinstance(seen, ClusterObservation):
        changes = {"ray": ALIVE} | changes
    return replace(seen, **changes)


def planned(seen: ClusterObservation, *, seconds: float = 0) -> Plan:
    return plan_cluster(seen, NOW + timedelta(seconds=seconds))


def of_workers(plan: Plan) -> list[Write]:
    writes = [write for stage in plan.stages for write in stage]
    return [each for each in writes if each.target.resource is PODS]


def drain(plan: Plan) -> DrainNodes:
    (command,) = plan.commands
    assert isinstance(command, HeadCommand)
    assert isinstance(command.command, DrainNodes)
    return command.command


def going(raw: dict[str, Any], name: str = "a", **more: Any) -> Pod:
    """A worker whose deletion has begun and ends soon."""
    return new(raw, name, terminating=True, ends=SOON, **more)


RAW = without_rolling(1)


@pytest.mark.parametrize("why", ["it is being deleted", "EvictionByEvictionAPI"])
def test_ray_drains_a_worker_that_others_delete_until_its_grace_period_ends(why: str):
    conditions = [] if why == "it is being deleted" else [TARGET]
    plan = planned(seen_in(kept(RAW, going(RAW, conditions=conditions))))
    command = drain(plan)
    assert (command.nodes, command.until) == (("n1",), NOW + timedelta(seconds=25))
    assert len(plan.subscriptions) == 2
    assert not of_workers(plan)
    (event,) = [each for each in plan.events if each.reason == "DrainingWorkerPod"]
    assert "pod a before it is taken away" in event.note
    assert why in event.note


def test_it_is_told_once():
    reads = kept(RAW, going(RAW))
    first = planned(seen_in(reads))
    again = planned(seen_in(reads, history=first.memory))
    assert (again.commands, again.events) == ((), ())


def test_nothing_is_drained_in_a_cluster_that_is_suspended_or_deleted():
    suspended = with_spec(RAW, suspend=True)
    assert not planned(seen_in(kept(suspended, going(suspended)))).commands
    reads = kept(RAW, going(RAW))
    obj = reads.objects["rayclusters", "default/example"]
    reads.add(RAYCLUSTERS, with_meta(obj, deletion_timestamp=SOON))
    assert not planned(seen_in(reads)).commands


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (CORDONED, "its node node-1 is cordoned"),
        ({"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}, "karpenter.sh"),
    ],
)
def test_a_worker_on_a_node_that_goes_leaves_the_service_and_is_drained(spec: Any, says: str):
    serving = new(RAW, "a", labels={labels.SERVE: "true"})
    reads = kept(RAW, serving, of=node(**spec))
    (patch,) = of_workers(planned(seen_in(reads)))
    assert isinstance(patch, MergePatch)
    written = patch.patch["metadata"]
    assert written["labels"] == {labels.SERVE: "false"}
    assert written["annotations"][labels.DRAINING_SINCE] == rfc3339(NOW)
    assert says in written["annotations"][labels.DISRUPTION]
    assert not of_workers(planned(seen_in(reads, settings=RaySettings())))


@pytest.mark.parametrize(
    "spec", [{}, {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}]
)
def test_a_worker_on_any_other_node_stays(spec: Any):
    assert not of_workers(planned(seen_in(kept(RAW, new(RAW, "a"), of=node(**spec)))))


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ],
)
def test_a_worker_that_tolerates_it_stays_because_its_replacement_might_come_back(toleration: Any):
    def tolerating(each: dict[str, str]) -> Pod:
        worker = new(RAW, "a")
        (given,) = msgspec.convert([each], tuple[Toleration, ...])
        return msgspec.structs.replace(
            worker, spec=msgspec.structs.replace(worker.spec, tolerations=(given,))
        )

    stays = kept(RAW, tolerating(toleration), of=node(**CORDONED))
    assert not of_workers(planned(seen_in(stays)))
    for other in ({"key": "a", "operator": "Exists"}, toleration | {"effect": "NoExecute"}):
        goes = kept(RAW, tolerating(other), of=node(**CORDONED))
        assert of_workers(planned(seen_in(goes)))


def test_a_head_that_will_be_taken_away_is_marked_and_not_drained():
    worker = new(RAW, "a", node="node-2")
    reads = kept(RAW, worker, of=node(**CORDONED), of_head="node-1")
    plan = planned(seen_in(reads))
    (patch,) = of_workers(plan)
    assert isinstance(patch, MergePatch)
    assert patch.target.name == HEAD
    assert patch.patch == {"metadata": {"annotations": ANNOUNCED}}
    assert not plan.commands


def test_an_eviction_that_is_announced_drains_the_worker_without_reading_nodes():
    reads = kept(RAW, new(RAW, "a", conditions=[TARGET]))
    (patch,) = of_workers(planned(seen_in(reads, settings=RaySettings())))
    assert isinstance(patch, MergePatch)
    stale = TARGET | {"status": "False"}
    assert not of_workers(planned(seen_in(kept(RAW, new(RAW, "a", conditions=[stale])))))


def test_no_second_write_meets_a_worker_that_is_deleted_drained_or_being_written():
    named = without_rolling(1)
    named["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": ["a"]}
    writes = of_workers(planned(seen_in(kept(named, new(named, "a"), of=node(**CORDONED)))))
    assert [type(each) for each in writes] == [Delete]
    drained = new(RAW, "a", annotations=draining(10))
    assert not of_workers(planned(seen_in(kept(RAW, drained, of=node(**CORDONED)))))
    pending = frozenset({worker_scope("workers")})
    reads = kept(RAW, new(RAW, "a"), of=node(**CORDONED))
    assert not of_workers(planned(seen_in(reads, pending_scopes=pending)))


def announced(raw: dict[str, Any], **more: Any) -> Pod:
    return new(raw, "a", annotations=draining(36_000) | ANNOUNCED, **more)


@pytest.mark.parametrize("raw", [RAW, rolling(1)], ids=["none", "rolling"])
def test_what_is_only_announced_is_deleted_when_ray_has_left_it_and_not_before(raw: Any):
    reads = kept(raw, announced(raw), of=node(**CORDONED))
    plan = planned(seen_in(reads))
    assert not [each for each in of_workers(plan) if isinstance(each, Delete)]
    command = drain(plan)
    assert (command.nodes, command.until > NOW) == (("n1",), True)
    deletions = [
        each for each in of_workers(planned(seen_in(reads, ray=DEAD))) if isinstance(each, Delete)
    ]
    (deletion,) = deletions
    assert deletion.on_success is not None
    assert deletion.on_success.note.endswith(DRAINED)


def test_it_stays_drained_when_the_node_is_no_longer_cordoned_and_keeps_its_actors():
    plan = planned(seen_in(kept(RAW, announced(RAW))))
    assert not of_workers(plan)
    assert (plan.requeue_after or 1) > 0


def test_a_ray_that_cannot_drain_does_not_hasten_its_end():
    reads = kept(RAW, announced(RAW))
    first = planned(seen_in(reads))
    told = {drain(first).id: CommandRefused("job manta-drain is FAILED")}
    refusing = replace(ALIVE, drains=told)
    assert not of_workers(planned(seen_in(reads, ray=refusing, history=first.memory)))


def test_an_invalid_edit_does_not_end_it_either():
    broken = with_spec(RAW, rayVersion=7)
    assert not of_workers(planned(seen_in(kept(broken, announced(RAW)))))


def test_a_rolling_update_reports_no_upgrade_because_of_it():
    raw = rolling(1)
    seen = seen_in(kept(raw, announced(raw), new(raw, "b")))
    plan = planned(seen)
    assert plan.status is not None
    status = cluster_status(seen, ())
    text = str((plan.status, status))
    assert "'Upgrading'" in text
    assert "NotExplained" not in text


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (RAW, 0),
        (with_spec(RAW, **GRACEFUL), 1),
        (rolling(1), 1),
        (rolling(1, maxSurge=0, maxUnavailable=1), 0),
    ],
    ids=["no surge", "graceful", "rolling", "rolling without surge"],
)
@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_replacement_is_created_at_once_where_the_group_may_surge(
    raw: Any, count: int, is_deleted: bool
):
    leaving = going(raw) if is_deleted else announced(raw)
    creates = [
        each
        for each in of_workers(planned(seen_in(kept(raw, leaving))))
        if isinstance(each, Create)
    ]
    assert len(creates) == count
    both = kept(raw, leaving, new(raw, "b"), new(raw, "c"))
    assert not [each for each in of_workers(planned(seen_in(both))) if isinstance(each, Create)]


def test_one_replacement_at_a_time_for_a_node_that_takes_three():
    raw = with_spec(without_rolling(3), **GRACEFUL)
    leaving = [going(raw, name) for name in "abc"]
    creates = of_workers(planned(seen_in(kept(raw, *leaving))))
    assert [type(each) for each in creates] == [Create]


def test_a_replica_of_two_hosts_is_replaced_whole():
    raw = with_spec(without_rolling(1), **GRACEFUL)
    group = raw["spec"]["workerGroupSpecs"][0] | {"numOfHosts": 2}
    raw["spec"]["workerGroupSpecs"] = [group]

    def host(name: str, index: int, **more: Any) -> Pod:
        marks = {labels.REPLICA_NAME: "r", labels.HOST_INDEX: str(index), labels.REPLICA_INDEX: "0"}
        return pod(name, "workers", labels=marks, **more)

    leaving = host("a", 0, terminating=True, ends=SOON)
    writes = of_workers(planned(seen_in(kept(raw, leaving, host("b", 1)))))
    assert [type(each) for each in writes] == [Delete, Create, Create]
