"""Multi-host replicas are made, repaired and deleted as one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.objects import KubeObject, Pod
from controller.kube.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES
from controller.ray.api import RayCluster
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.head_and_workers import ABREAST
from controller.ray.cluster.observation import WorkerUnits, read_units
from controller.ray.cluster.scale_down import missing_positions, pods_to_delete
from controller.ray.pods import ReplicaPosition
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, Plan
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    cluster,
    head,
    manifest,
    meta,
    owner,
    plan,
    pod,
    reads,
    with_meta,
)
from tests.ray.cluster.test_plan import SERVICE
from tests.ray.cluster.workers.test_scale_down import group

INDEX = "ray.io/worker-group-replica-index"
NAME = "ray.io/worker-group-replica-name"
HOST = "ray.io/replica-host-index"
NO_SLICES = RayClusterKind(
    RaySettings(feature_gates=FeatureGates.parse("RayMultiHostIndexing=false"))
)


def host(name: str, number: int, *, index: int = 0, **more: Any) -> Pod:
    places = {NAME: name, INDEX: str(index), HOST: str(number)}
    return pod(f"{name}-{number}", labels=places, **more)


def whole(name: str, *, hosts: int = 3, **more: Any) -> list[Pod]:
    return [host(name, number, **more) for number in range(hosts)]


def multi(
    replicas: int, *named: str, hosts: int = 3, autoscaling: bool = False, **fields: Any
) -> RayCluster:
    raw = manifest()
    raw["spec"]["enableInTreeAutoscaling"] = autoscaling
    raw["spec"]["workerGroupSpecs"][0] |= {
        "replicas": replicas,
        "numOfHosts": hosts,
        "scaleStrategy": {"workersToDelete": list(named)},
    } | fields
    return cluster(raw)


def around(obj: RayCluster, *pods: Pod, **more: Any) -> FakeReads:
    """Reads of a cluster whose head and services exist."""
    kept = reads(obj, head(), *pods, **more)
    kept.add(SERVICES, SERVICE, with_meta(SERVICE, name="example-headless", labels={}))
    part = KubeObject(metadata=meta("example", owner_references=(owner(),)))
    for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
        kept.add(resource, part)
    return kept


def made(plan_: Plan) -> list[list[dict[str, str]]]:
    """Labels of the pods that are created, stage by stage."""
    stages = [
        [w.body["metadata"]["labels"] for w in stage if isinstance(w, Create)]
        for stage in plan_.stages
    ]
    return [stage for stage in stages if stage]


def gone(plan_: Plan) -> set[str]:
    return {w.target.name for stage in plan_.stages for w in stage if isinstance(w, Delete)}


def chosen(units: WorkerUnits) -> list[str]:
    found = pods_to_delete(units, wanted=units.desired, wanted_hash=None, may_shrink=True)
    return [each.pod.metadata.name for each in found]


def missing(units: WorkerUnits) -> list[ReplicaPosition | None]:
    return missing_positions(units, wanted=units.desired, owner_uid="u", revision="1", batch=64)


def test_slice_names_are_labels_whatever_the_group_is_called():
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= {
        "groupName": "g" * 63, "numOfHosts": 2, "replicas": 1
    }  # fmt: skip
    names = {stage[0][NAME] for stage in made(plan(around(cluster(raw))))}
    assert [len(name) for name in names] == [63]


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param([], id="gone"),
        pytest.param([host("a", 1, phase="Failed")], id="failed"),
        pytest.param([host("a", 1, terminating=True)], id="going"),
    ],
)
def test_a_slice_that_lost_a_host_goes_whole_and_comes_back_under_a_new_name(lost: list[Pod]):
    present = [host("a", 0), *lost, host("a", 2)]
    made_ = plan(around(multi(2), *present, *whole("b", index=1)))
    assert gone(made_) == {p.metadata.name for p in present if not p.metadata.terminating}
    assert made(made_) == [], "its place is free when the last of its pods is gone"
    going = [host("a", number, terminating=True) for number in (0, 2)]
    assert plan(around(multi(2), *going, *whole("b", index=1))).stages == ()
    (first, *_), _, _ = made(plan(around(multi(2), *whole("b", index=1))))
    assert first[INDEX] == "0"
    assert first[NAME] not in {"a", "b"}


def test_the_event_says_which_host_costs_the_slice():
    pods = [host("a", 0), host("a", 1, phase="Failed", ready=False), host("a", 2)]
    made_ = plan(around(multi(1), *pods))
    notes = [w.on_success.note for stage in made_.stages for w in stage if w.on_success]
    assert notes[0] == ("Deleted pod a-0 because of pod a-1 of its replica a: its phase is Failed")


def test_a_slice_that_this_process_is_still_making_is_completed():
    begun = plan(around(multi(2), *whole("a"), host("b", 0, index=1), begun={"b": 1}))
    assert gone(begun) == set()
    assert [(p[NAME], p[INDEX], p[HOST]) for (p,) in made(begun)] == [
        ("b", "1", "1"), ("b", "1", "2")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("present", "begun"),
    [
        pytest.param([0, 1], {}, id="made before a crash"),
        pytest.param([0], {"b": 2}, id="lost its latest host"),
        pytest.param([1], {"b": 1}, id="lost its first host"),
        pytest.param([0, 2], {"b": 2}, id="lost a host in the middle"),
    ],
)
def test_a_part_of_a_slice_of_which_more_may_have_existed_goes_once_and_whole(
    present: list[int], begun: dict[str, int]
):
    pods = [host("b", number, index=1) for number in present]
    made_ = plan(around(multi(2), *whole("a"), *pods, begun=begun))
    assert gone(made_) == {pod.metadata.name for pod in pods}
    assert made(made_) == []


@pytest.mark.parametrize("named", [(), ("b-0",)])
def test_a_slice_is_not_completed_to_be_deleted(named: tuple[str, ...]):
    obj = multi(1 if not named else 2, *named, autoscaling=True)
    made_ = plan(around(obj, *whole("a"), host("b", 0, index=1), begun={"b": 1}))
    assert (gone(made_), made(made_)) == ({"b-0"}, [])


@pytest.mark.parametrize("going", [False, True])
def test_scaling_down_one_slice_does_not_cost_another_that_is_being_made(going: bool):
    obj = multi(1, "a-0", autoscaling=True)
    pods = [*whole("a", terminating=going), host("b", 0, index=1)]
    made_ = plan(around(obj, *pods, begun={"b": 1}))
    assert gone(made_) == (set() if going else {"a-0", "a-1", "a-2"})
    assert [(p[NAME], p[HOST]) for (p,) in made(made_)] == [("b", "1"), ("b", "2")]


def test_while_a_write_is_pending_no_slice_is_created_completed_or_deleted():
    pending = frozenset({"worker/workers"})
    pods = [*whole("a"), host("b", 0, index=1), host("c", 0), host("c", 1, phase="Failed")]
    kept = around(multi(4), *pods, begun={"b": 1}, pending=pending)
    assert plan(kept).stages == ()


def test_naming_one_host_takes_its_slice_and_no_other():
    pods = [*whole("a"), *whole("b", index=1)]
    made_ = plan(around(multi(2, "b-1", autoscaling=True), *pods))
    assert gone(made_) == {"b-0", "b-1", "b-2"}
    assert gone(plan(around(multi(1, "b-1"), *pods))) == {"b-0", "b-1", "b-2"}, "counted once"


def test_with_autoscaling_surplus_slices_stay_and_broken_ones_go():
    pods = [*whole("a"), *whole("b", index=1), host("c", 0, index=2)]
    assert gone(plan(around(multi(1, autoscaling=True), *pods))) == {"c-0"}
    free = RayClusterKind(RaySettings(delete_unnamed=True))
    assert len(gone(plan(around(multi(1, autoscaling=True), *pods), free))) == 4


names = st.sampled_from(["a", "b", ""])


@given(st.lists(st.tuples(names, st.integers(0, 3)), unique=True), st.randoms())
def test_the_order_of_the_cache_decides_nothing(
    drawn: list[tuple[str, int]], shuffler: random.Random
):
    pods = [host(name, number, index=number) for name, number in drawn]
    spec = group(1, numOfHosts=3)

    def decided(present: list[Pod]) -> tuple[list[str], list[ReplicaPosition | None]]:
        slices = read_units(spec, present)
        return chosen(slices), missing(slices)

    shuffled = list(pods)
    shuffler.shuffle(shuffled)
    assert decided(pods) == decided(shuffled)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 2), st.sampled_from("lfg")),
        unique_by=lambda drawn: drawn[:2],
    ),
    st.integers(0, 4),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
)
def test_slices_never_overshoot_and_never_stay_halves(
    drawn: list[tuple[str, int, str]], replicas: int, begun: dict[str, int]
):
    pods = [
        host(n, i, phase="Failed" if s == "f" else "Running", terminating=s == "g")
        for n, i, s in drawn
    ]
    units = read_units(group(replicas, numOfHosts=3), pods, begun)
    slices, doomed = units.units, {*chosen(units)}
    places = missing(units)
    kept = [each for each in slices if not {p.metadata.name for p in each.pods} & doomed]
    completed = {place.replica_name for place in places if place is not None}
    assert len({each.name for each in slices} | completed) <= max(replicas, len(slices))
    for each in kept:
        going = all(pod.metadata.terminating for pod in each.pods)
        assert going or len(each.pods) == 3 or each.name in completed
    for each in slices:
        mine = {pod.metadata.name for pod in each.pods if not pod.metadata.terminating}
        assert not mine & doomed or mine <= doomed, "a slice goes whole"
        assert not (each.name in completed and mine & doomed)


def test_a_batch_does_not_begin_a_slice_that_it_cannot_end():
    small = RayClusterKind(RaySettings(batch=8))
    assert sum(map(len, made(plan(around(multi(5)), small)))) == 6
    assert len(made(plan(around(multi(1, hosts=12)), small))) == 8, "unless it is too big for any"


def test_a_slice_of_absurdly_many_hosts_costs_a_plan_no_more_than_its_batch():
    obj = multi(1, hosts=2**31 - 1)
    assert len(made(plan(around(obj)))) == RaySettings().batch
    first = host("a", 0)
    assert len(made(plan(around(obj, first, begun={"a": 1})))) == RaySettings().batch


def test_only_some_slices_are_made_side_by_side():
    obj = multi(ABREAST + 2, hosts=2, maxReplicas=100)
    assert [len(stage) for stage in made(plan(around(obj)))] == [ABREAST, ABREAST, 2, 2]


def test_without_the_gate_hosts_are_plain_pods_and_say_nothing_of_slices():
    (labels,) = made(plan(around(multi(1)), NO_SLICES))
    assert len(labels) == 3
    assert not any({INDEX, NAME, HOST} & set(place) for place in labels)
    present = [host("a", 0), host("a", 1)]
    assert gone(plan(around(multi(1), *present), NO_SLICES)) == set()


def test_hosts_of_an_operator_that_knew_no_slices_stay_and_are_replaced_singly():
    anonymous = [pod(f"anonymous-{number}") for number in range(5)]
    made_ = plan(around(multi(2), *anonymous))
    assert gone(made_) == set()
    assert [len(stage) for stage in made(made_)] == [1]
    assert NAME not in made(made_)[0][0]


def test_more_hosts_turn_single_pods_into_slices_and_fewer_turn_them_back():
    singles = [pod(f"single-{n}", labels={INDEX: str(n)}) for n in range(2)]
    assert gone(plan(around(multi(2, hosts=2), *singles))) == {"single-0", "single-1"}
    assert gone(plan(around(multi(1, hosts=2), *whole("a")))) == {"a-0", "a-1", "a-2"}
    assert gone(plan(around(multi(1, hosts=1), *whole("a")))) == {"a-0", "a-1", "a-2"}
    single = host("a", 0)
    assert plan(around(multi(1, hosts=1), single)).stages == (), "a slice of one host is whole"
    mixed = plan(around(multi(3, hosts=1), single, *singles[1:]))
    assert [place[INDEX] for (place,) in made(mixed)] == ["2"]
    assert NAME not in made(mixed)[0][0]


@pytest.mark.parametrize("left", [(1, 2), (0, 2)])
def test_what_is_left_of_a_larger_slice_is_no_whole_one_whatever_its_number(left: tuple[int, int]):
    rest = [host("a", number) for number in left]
    resized = plan(around(multi(1, hosts=2), *rest))
    assert gone(resized) == {each.metadata.name for each in rest}
    assert gone(plan(around(multi(1, hosts=2), host("a", 0), host("a", 1)))) == set()


def test_a_host_index_that_is_no_number_costs_nothing():
    odd = pod("a-x", labels={NAME: "a", INDEX: "0", HOST: "x"})
    assert gone(plan(around(multi(1, hosts=2), host("a", 0), odd))) == set()


@pytest.mark.parametrize(
    ("hosts", "pods", "expected"),
    [
        (1, [pod("a")], False),
        (1, whole("a"), True),
        (2, [], True),
        (2, [pod("a")], False),
        (2, [pod("a", labels={INDEX: "0"})], True),
        (2, [pod("a"), *whole("b")], True),
    ],
)
def test_which_groups_consist_of_slices(hosts: int, pods: list[Pod], expected: bool):
    assert read_units(group(1, numOfHosts=hosts), pods).is_multi_host is expected


def test_a_suspended_group_loses_all_slices():
    pods = [*whole("a"), *whole("b", index=1)]
    assert len(gone(plan(around(multi(2, suspend=True), *pods)))) == 6
