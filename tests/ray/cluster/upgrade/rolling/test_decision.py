"""What a rolling update decides: each guard of `rolling.py` holds something, or lets it go."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.cluster.held_deletions import held_deletions
from controller.ray.cluster.rollout import RevisionHistory, Rollout, Verdict
from controller.ray.pods.hashes import template_digest
from controller.ray.rolling import Moves
from controller.runtime.definitions import InstalledDefinition
from tests.ray.cluster.support import NOW, cluster, pod, with_status
from tests.ray.cluster.upgrade.rolling.scenes import (
    OLD,
    answering,
    decided,
    draining,
    failing,
    new,
    observed,
    observed_object,
    old,
    rolling,
    set_image,
    the_head,
    upgrading,
    with_begun,
    with_spec,
)

NEXT = "rayproject/ray:2.61.0"
MINE = "example.com/mine:1"
STARTING: dict[str, Any] = {"phase": "Pending", "ready": False}
RESTARTED: dict[str, Any] = {"name": "ray-worker", "restartCount": 1, "state": {"running": {}}}
ENDED: dict[str, Any] = {"name": "ray-worker", "state": {"terminated": {"exitCode": 1}}}


def moves(rollout: Rollout, group: str = "workers") -> Moves:
    return rollout.groups[group].moves


def without_rolling(raw: dict[str, Any]) -> dict[str, Any]:
    return with_spec(raw, upgradeStrategy={"type": "None"})


def replica(name: str, stamp: str, hosts: int = 1, **more: Any) -> list[Pod]:
    """So many hosts of a replica, from the first one."""
    return [
        pod(
            f"{name}-{host}",
            labels={
                labels.REPLICA_NAME: name,
                labels.REPLICA_INDEX: "0",
                labels.HOST_INDEX: str(host),
            },
            annotations={labels.TEMPLATE_HASH: stamp},
            **more,
        )
        for host in range(hosts)
    ]


def of_two_hosts() -> dict[str, Any]:
    raw = rolling(1)
    raw["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
    return raw


def fault_tolerant(raw: dict[str, Any]) -> dict[str, Any]:
    return with_spec(raw, gcsFaultToleranceOptions={"redisAddress": "redis:6379"})


# -- whether there is an update ----------------------------------------------------------------


def test_with_another_strategy_what_drains_goes_and_nothing_else_is_drained():
    raw = without_rolling(rolling(2))
    seen = observed(raw, the_head(raw), old("a", annotations=draining()), old("b"))
    rollout = decided(seen)
    assert rollout.verdict is Verdict.PAUSED
    assert (moves(rollout).drain, moves(rollout).delete) == ((), ("a",))


def test_an_update_that_was_reported_is_looked_at_until_it_is_reported_as_complete():
    raw = rolling(1)
    seen = observed(raw, the_head(raw), new(raw, "a"), conditions=(upgrading(),))
    assert list(decided(seen).groups) == ["workers"]


def test_an_up_to_date_pod_that_drains_is_replaced():
    raw = rolling(1)
    seen = observed(raw, the_head(raw), new(raw, "a", annotations=draining()))
    assert moves(decided(seen)).delete == ("a",)


def test_suspended_groups_are_no_part_of_it():
    raw = rolling(1, 1)
    raw["spec"]["workerGroupSpecs"][1]["suspend"] = True
    seen = observed(raw, the_head(raw), old("a"), old("b", group="workers-1"))
    assert list(decided(seen).groups) == ["workers"]


# -- versions ----------------------------------------------------------------------------------


def test_while_nobody_is_asked_the_image_of_the_head_says_which_version_runs():
    raw = rolling(1, image=NEXT)
    assert decided(observed(raw, the_head(raw), old("a"))).verdict is Verdict.INCOMPATIBLE_VERSIONS


def test_what_ray_says_of_its_version_counts_more_than_the_image_of_the_head():
    raw = rolling(1, image=NEXT)
    seen = observed(raw, the_head(raw), old("a"), ray=answering(version="2.61.0"))
    assert decided(seen).verdict is not Verdict.INCOMPATIBLE_VERSIONS


def test_nothing_is_created_for_a_version_that_cannot_join():
    raw = rolling(2, 2)
    set_image(raw["spec"]["workerGroupSpecs"][0], NEXT)
    seen = observed(raw, the_head(raw), old("a"), old("b", group="workers-1"))
    rollout = decided(seen)
    assert "group workers: image" in rollout.cause
    assert "Recreate" in rollout.cause
    assert not any(moves(rollout, group).drain for group in rollout.groups)
    assert moves(rollout, "workers-1").create == 1, "the lost one is made up for"


def test_an_outdated_head_of_another_version_is_refused_too():
    raw = fault_tolerant(rolling(1))
    set_image(raw["spec"]["headGroupSpec"], NEXT)
    rollout = decided(observed(raw, the_head(raw, outdated=True), new(raw, "a")))
    assert rollout.verdict is Verdict.INCOMPATIBLE_VERSIONS
    assert "the head: image" in rollout.cause
    assert not rollout.replaces_head


@pytest.mark.parametrize("status", [RESTARTED, ENDED], ids=["restarted", "ended"])
def test_a_pod_of_unknown_version_that_ends_could_not_join(status: dict[str, Any]):
    raw = rolling(1, image=MINE)
    trial = new(raw, "new", ready=False, containers=[status])
    rollout = decided(observed(raw, the_head(raw), old("a"), trial))
    assert rollout.verdict is Verdict.INCOMPATIBLE_VERSIONS
    assert "pod new, the first one of the new template of group workers" in rollout.cause


def test_a_replica_of_unknown_version_of_which_one_host_ends_could_not_join():
    raw = of_two_hosts()
    set_image(raw["spec"]["workerGroupSpecs"][0], MINE)
    wanted = str(template_digest(raw["spec"]["workerGroupSpecs"][0]))
    first, _ = replica("new", wanted, 2, ready=False)
    _, broken = replica("new", wanted, 2, ready=False, containers=[ENDED])
    rollout = decided(observed(raw, the_head(raw), *replica("old", OLD, 2), first, broken))
    assert rollout.verdict is Verdict.INCOMPATIBLE_VERSIONS


def test_a_pod_of_unknown_version_that_is_not_ready_in_time_could_not_join():
    raw = rolling(1, image=MINE)
    trial = new(raw, "new", **STARTING)
    late = upgrading(seconds=600)
    rollout = decided(observed(raw, the_head(raw), old("a"), trial, conditions=(late,)))
    assert rollout.verdict is Verdict.INCOMPATIBLE_VERSIONS


def test_a_sidecar_that_ends_says_nothing_of_the_version():
    raw = rolling(1, image=MINE)
    trial = new(raw, "new", ready=False, containers=[ENDED | {"name": "sidecar"}])
    assert decided(observed(raw, the_head(raw), old("a"), trial)).verdict is Verdict.ROLLING


def test_a_pod_of_unknown_version_that_has_joined_may_have_restarted():
    raw = rolling(2, image=MINE)
    joined = new(raw, "new", containers=[RESTARTED])
    rollout = decided(observed(raw, the_head(raw), old("a"), old("b"), joined))
    assert rollout.verdict is Verdict.ROLLING
    assert moves(rollout).drain == ("a",)


def test_an_old_pod_that_ends_says_nothing_of_the_new_version():
    raw = rolling(2, image=MINE)
    broken = old("a", ready=False, containers=[RESTARTED])
    assert decided(observed(raw, the_head(raw), broken, old("b"))).verdict is Verdict.ROLLING


# -- whose turn it is --------------------------------------------------------------------------


def test_a_pause_forgets_no_turn():
    raw = rolling(1, 1, maxSurge=0, maxUnavailable=1, paused=True)
    starting = new(raw, "a", ready=False)
    seen = observed(raw, the_head(raw), starting, old("b", group="workers-1"))
    assert decided(with_begun(seen, "workers")).begun == {"workers"}
    assert decided(seen).begun == frozenset()


def test_the_head_waits_until_the_replacements_of_the_workers_are_ready():
    raw = fault_tolerant(rolling(1, maxSurge=0, maxUnavailable=1))
    head = the_head(raw, outdated=True)
    starting = observed(raw, head, new(raw, "a", ready=False))
    assert not decided(with_begun(starting, "workers")).replaces_head
    assert decided(with_begun(observed(raw, head, new(raw, "a")), "workers")).replaces_head


# -- what holds it -----------------------------------------------------------------------------


def test_nothing_is_drained_while_ray_does_not_answer():
    raw = rolling(1, maxUnavailable=1)
    silent = answering(health=failing())
    rollout = decided(observed(raw, the_head(raw), old("a"), ray=silent))
    assert rollout.verdict is Verdict.RAY_DOES_NOT_ANSWER
    assert rollout.cause.endswith("see the log of its pod: connection refused")
    assert moves(rollout) == Moves()


def test_a_paused_update_drains_nothing_and_no_time_makes_it_late():
    raw = rolling(1, maxUnavailable=1, paused=True)
    rollout = decided(observed(raw, the_head(raw), old("a")))
    assert (rollout.verdict, moves(rollout)) == (Verdict.PAUSED, Moves())
    assert rollout.seconds_left is None


def test_an_update_in_which_nothing_has_moved_until_the_deadline_is_late_and_goes_on():
    raw = rolling(1, maxUnavailable=1, progressDeadlineSeconds=600)
    for seconds, verdict in ((599, Verdict.ROLLING), (600, Verdict.PROGRESS_DEADLINE_EXCEEDED)):
        began = upgrading(seconds=seconds)
        rollout = decided(observed(raw, the_head(raw), old("a"), conditions=(began,)))
        assert (rollout.verdict, moves(rollout).drain) == (verdict, ("a",))


def test_a_jump_of_the_clock_back_puts_no_deadline_off():
    raw = rolling(1, progressDeadlineSeconds=600)
    seen = observed(raw, the_head(raw), old("a"), conditions=(upgrading(seconds=-18000),))
    for seconds, verdict in ((599, Verdict.ROLLING), (600, Verdict.PROGRESS_DEADLINE_EXCEEDED)):
        jumped = replace(seen, clock_steady_since=NOW - timedelta(seconds=seconds))
        assert decided(jumped).verdict is verdict


def test_nothing_is_drained_before_the_present_templates_are_kept():
    raw = rolling(1, maxUnavailable=1)
    awaited = RevisionHistory("example-1")
    rollout = decided(observed(raw, the_head(raw), old("a"), revisions=awaited))
    assert (rollout.verdict, moves(rollout)) == (Verdict.ROLLING, Moves())


def test_nothing_is_drained_that_no_edit_explains():
    raw = rolling(1, maxUnavailable=1)
    counted = {"type": "HeadPodReady", "status": "True", "observedGeneration": 1}
    obj = observed(raw, conditions=(counted,)).cluster
    obj = replace(obj, status={**obj.status, "observedGeneration": 1})
    rollout = decided(observed_object(obj, the_head(raw), old("a")))
    assert (rollout.verdict, moves(rollout)) == (Verdict.NOT_EXPLAINED, Moves())
    seen = replace(observed_object(obj, the_head(raw), old("a")), rollout=rollout)
    held = held_deletions(seen)
    assert held is not None
    assert held.message.startswith("1 pod (a) would be deleted")
    assert "the specification was not edited since the status was written" in held.message


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ("bc", "1 pod (b) would be deleted because the group has more pods than it should, but "),
        ("b", "Pods would be deleted because they were created from another template, but "),
    ],
)
def test_a_doubtful_update_without_outdated_pods_holds_the_pods_that_the_doubt_is_about(
    others: str, told: str
):
    raw = rolling(1, maxUnavailable=1)
    counted = {"type": "HeadPodReady", "status": "True", "observedGeneration": 1}
    obj = observed(raw, conditions=(counted,)).cluster
    obj = replace(obj, status={**obj.status, "observedGeneration": 1, "desiredWorkerReplicas": 3})
    pods = [the_head(raw), new(raw, "a", annotations=draining()), *map(partial(new, raw), others)]
    rollout = decided(observed_object(obj, *pods))
    assert rollout.verdict is Verdict.NOT_EXPLAINED
    seen = replace(observed_object(obj, *pods), rollout=rollout)
    held = held_deletions(seen)
    assert held is not None
    assert held.message.startswith(told)


def test_an_update_that_waited_for_the_head_explains_only_the_replacement_of_the_head():
    raw = fault_tolerant(rolling(1, maxUnavailable=1))
    counted = {"type": "HeadPodReady", "status": "True", "observedGeneration": 1}
    waited = upgrading("HeadNeedsFaultTolerance")
    obj = observed(raw, conditions=(counted, waited)).cluster
    obj = replace(obj, status={**obj.status, "observedGeneration": 1})
    workers = observed_object(obj, the_head(raw, outdated=True), old("a"))
    assert decided(workers).verdict is Verdict.NOT_EXPLAINED
    head = observed_object(obj, the_head(raw, outdated=True), new(raw, "a"))
    assert decided(head).replaces_head


def lacking(*fields: str) -> InstalledDefinition:
    return InstalledDefinition(missing=tuple(f"spec.{field}" for field in fields))


def test_while_the_definition_lacks_hosts_no_other_group_takes_the_turn():
    raw = rolling(1, 1, maxUnavailable=1, maxSurge=0)
    pods = the_head(raw), *replica("one", OLD, 2), old("c", "workers-1")
    whole = observed(raw, *pods, conditions=(upgrading(),))
    assert moves(decided(whole), "workers-1").drain == ("c",)
    rollout = decided(replace(whole, definition=lacking("workerGroupSpecs.numOfHosts")))
    assert moves(rollout, "workers-1") == Moves()
    assert rollout.verdict is Verdict.ROLLING
    assert "the groups may lack what the installed definition drops" in rollout.cause


@pytest.mark.parametrize(("lacks", "goes"), [((), True), (("workerGroupSpecs",), False)])
def test_the_head_does_not_go_first_because_a_definition_drops_the_groups(
    lacks: tuple[str, ...], *, goes: bool
):
    raw = fault_tolerant(with_spec(rolling(), workerGroupSpecs=[]))
    seen = observed(raw, the_head(raw, outdated=True), old("a"), conditions=(upgrading(),))
    assert decided(replace(seen, definition=lacking(*lacks))).replaces_head is goes


@pytest.mark.parametrize(("before", "drained"), [(1, ("a",)), (2, ())])
def test_a_number_that_shrinks_without_an_edit_drains_nothing(before: int, drained: Any):
    raw = rolling(1, maxUnavailable=1, maxSurge=0)
    counted = {"type": "HeadPodReady", "observedGeneration": 1}
    status = {"observedGeneration": 1, "conditions": [counted, upgrading()]}
    obj = with_status(cluster(raw), status | {"desiredWorkerReplicas": before})
    seen = observed_object(obj, the_head(raw), old("a"), old("b"), new(raw, "n"))
    assert moves(decided(seen)).drain == drained


def test_groups_that_a_definition_drops_are_not_taken_to_be_done():
    raw = with_spec(rolling(), workerGroupSpecs=[])
    seen = observed(raw, the_head(raw), old("a"), conditions=(upgrading(),))
    assert decided(seen).verdict is Verdict.COMPLETE
    seen = replace(seen, definition=lacking("workerGroupSpecs"))
    assert decided(seen).verdict is Verdict.ROLLING


# -- the end, and the head ---------------------------------------------------------------------


def test_an_update_ends_when_the_replacements_of_all_groups_are_ready():
    raw = rolling(1, 1)
    workers = [new(raw, "a"), new(raw, "b", 1, ready=False)]
    seen = observed(raw, the_head(raw), *workers, conditions=(upgrading(),))
    assert decided(seen).verdict is Verdict.ROLLING


@pytest.mark.parametrize("heads", [0, 1])
def test_an_update_does_not_end_before_the_head_is_ready(heads: int):
    raw = rolling(1)
    starting = [the_head(raw, ready=False)] * heads
    rollout = decided(observed(raw, *starting, new(raw, "a"), conditions=(upgrading(),)))
    assert (rollout.verdict, rollout.replaces_head) == (Verdict.ROLLING, False)
    assert rollout.cause == "waiting for the head to be ready"


def test_an_operator_that_comes_back_after_the_deadline_still_replaces_the_head():
    raw = fault_tolerant(rolling(1))
    seen = observed(
        raw, the_head(raw, outdated=True), new(raw, "a"), conditions=(upgrading(seconds=9000),)
    )
    rollout = decided(seen)
    assert rollout.verdict is Verdict.PROGRESS_DEADLINE_EXCEEDED
    assert rollout.replaces_head


def test_the_head_is_kept_if_work_would_end_with_it():
    raw = rolling(1)
    rollout = decided(observed(raw, the_head(raw, outdated=True), new(raw, "a")))
    assert (rollout.verdict, rollout.replaces_head) == (Verdict.HEAD_NEEDS_FAULT_TOLERANCE, False)
    assert "without GCS fault tolerance" in rollout.cause


@pytest.mark.parametrize(("value", "stays"), [("true", True), ("false", False)])
def test_the_head_is_kept_if_the_annotation_says_so(value: str, *, stays: bool):
    raw = fault_tolerant(rolling(1))
    raw["metadata"]["annotations"] = {labels.DISABLE_HEAD_RESTART: value}
    rollout = decided(observed(raw, the_head(raw, outdated=True), new(raw, "a")))
    assert rollout.replaces_head is not stays
    assert ("because of the annotation" in rollout.cause) is stays


# -- replicas that are being created -----------------------------------------------------------


def test_a_replica_of_which_any_host_is_older_is_not_completed():
    raw = of_two_hosts()
    wanted = str(template_digest(raw["spec"]["workerGroupSpecs"][0]))
    hosts = [*replica("one", wanted), *replica("one", OLD, 2)[1:]]
    seen = observed(raw, the_head(raw), *hosts, begun={"one": 2})
    assert seen.units["workers"].begun == {}


def test_a_replica_that_was_begun_with_the_present_template_is_completed():
    raw = of_two_hosts()
    wanted = str(template_digest(raw["spec"]["workerGroupSpecs"][0]))
    hosts = [*replica("one", wanted), *replica("two", OLD, 2)]
    seen = observed(raw, the_head(raw), *hosts, begun={"one": 1})
    assert seen.units["workers"].begun == {"one": 1}


# -- scale-down --------------------------------------------------------------------------------


def surplus(raw: dict[str, Any], *workers: Pod) -> tuple[str, ...]:
    return decided(observed(raw, the_head(raw), *workers)).groups["workers"].surplus


def test_while_a_group_waits_old_pods_are_surplus_and_the_surge_is_not():
    raw = rolling(1, paused=True)
    assert surplus(raw, new(raw, "a"), old("c"), old("d")) == ("c",)
    assert surplus(raw, old("c"), old("d")) == ("c",)
    assert surplus(raw, new(raw, "a"), new(raw, "b"), old("c")) == ("a",)
    assert surplus(raw, new(raw, "a"), old("c"), old("d", annotations=draining())) == ()
    assert surplus(raw, old("c")) == ()
