"""What a rolling update waits for, and since when nothing has moved."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kube.objects import Condition, Pod
from controller.ray.cluster.observation import Losses, PodHistory
from controller.ray.cluster.rolling import is_explained
from controller.ray.head import HEAD_SCOPE, worker_scope
from controller.runtime.definitions import InstalledDefinition
from tests.ray.cluster.support import NOW, pod
from tests.ray.cluster.upgrade.rolling.scenes import (
    answering,
    decided,
    draining,
    new,
    observed,
    observed_object,
    old,
    recorded,
    rolling,
    the_head,
    upgrading,
    with_spec,
)

STARTING: dict[str, Any] = {"phase": "Pending", "ready": False}


def cause(*workers: Pod, raw: dict[str, Any] | None = None, **changes: Any) -> str:
    raw = raw or rolling(2)
    heads = changes.pop("heads", (the_head(raw),))
    return decided(observed(raw, *heads, *workers, conditions=(upgrading(),), **changes)).cause


def test_the_first_new_pod_that_is_not_of_use_is_named():
    raw = rolling(3)
    starting = new(raw, "b", **STARTING)
    assert cause(new(raw, "a"), starting, old("c"), raw=raw) == "waiting for b to be ready"
    unknown = cause(new(raw, "a"), old("c"), raw=raw, ray=answering())
    assert unknown == "waiting for a to be listed by Ray as alive"


def test_a_terminating_pod_is_named():
    assert cause(old("a", terminating=True), raw=rolling(1)) == "waiting for a to be gone"


def test_the_head_is_named_when_all_else_is_done():
    raw = with_spec(rolling(1), gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    worker = new(raw, "a")
    waits = "waiting for the head to be ready"
    assert cause(worker, raw=raw, heads=(the_head(raw, outdated=True),)) == (
        "the head is replaced last"
    )
    assert cause(worker, raw=raw, heads=(the_head(raw, outdated=True, ready=False),)) == waits
    assert cause(worker, raw=raw, heads=()) == waits
    short = rolling(2)
    assert cause(new(short, "a"), raw=short) == ""


def lost(rounds: int, scope: str) -> PodHistory:
    losses = Losses(rounds, NOW, frozenset(), frozenset(), "", pod("x", phase="Failed"))
    return PodHistory(losses={scope: losses})


def test_pods_that_are_lost_again_and_again_are_named_before_what_else_is_waited_for():
    scope = worker_scope("workers")
    assert "lost 2 times in a row" in cause(old("a"), old("b"), history=lost(2, scope))
    assert "lost" not in cause(old("a"), old("b"), history=lost(1, scope))
    assert "lost" not in cause(old("a"), old("b"), history=lost(2, HEAD_SCOPE))
    raw = rolling(1)
    done = cause(new(raw, "a", ready=False), raw=raw, history=lost(2, scope))
    assert "lost" not in done


def seconds_left(
    *workers: Pod, condition: dict[str, Any] | None, raw: dict[str, Any] | None = None
) -> float | None:
    raw = raw or rolling(2, progressDeadlineSeconds=600, drainTimeoutSeconds=300)
    conditions = () if condition is None else (condition,)
    seen = observed(raw, the_head(raw), *workers, conditions=conditions)
    return decided(seen).seconds_left


def ready_since(worker: Pod, time: str) -> Pod:
    ready = Condition(type="Ready", status="True", last_transition_time=time)
    status = msgspec.structs.replace(worker.status, conditions=(ready,))
    return msgspec.structs.replace(worker, status=status)


def test_a_new_pod_is_progress_when_it_is_created_and_when_it_is_ready():
    raw = rolling(2, progressDeadlineSeconds=600)
    began = upgrading(seconds=500)
    starting = new(raw, "b", created="2026-08-20T09:59:00Z", **STARTING)
    assert seconds_left(old("a"), starting, condition=began, raw=raw) == 540
    ready = ready_since(starting, "2026-08-20T09:59:30Z")
    assert seconds_left(old("a"), ready, condition=began, raw=raw) == 570
    outdated = ready_since(old("b"), "2026-08-20T09:59:30Z")
    assert seconds_left(old("a"), outdated, condition=began, raw=raw) == 100
    odd = new(raw, "b", created="yesterday", **STARTING)
    assert seconds_left(old("a"), odd, condition=began, raw=raw) == 100


def test_a_pod_that_begins_to_drain_is_progress():
    raw = rolling(2, progressDeadlineSeconds=600, drainTimeoutSeconds=1000)
    leaving = old("b", annotations=draining(30))
    assert seconds_left(old("a"), leaving, condition=upgrading(seconds=500), raw=raw) == 570


def test_the_end_of_a_drain_is_looked_at_and_one_that_has_ended_is_not():
    raw = rolling(3, drainTimeoutSeconds=100)
    leaving = old("a", annotations=draining(40)), old("b", annotations=draining(10))
    assert seconds_left(*leaving, condition=upgrading(), raw=raw) == 60
    ended = old("a", annotations=draining(100)), leaving[1]
    assert seconds_left(*ended, condition=upgrading(), raw=raw) == 90
    gone = old("a", annotations=draining(40), terminating=True), leaving[1]
    assert seconds_left(*gone, condition=upgrading(), raw=raw) == 90


def explained(obj: Any, *, only_head: bool = False, **changes: Any) -> bool:
    return is_explained(observed_object(obj, **changes), only_head=only_head)


def test_nothing_is_explained_while_the_definition_lacks_settings():
    obj = recorded(rolling(1), counted=0)
    lacks = InstalledDefinition(missing=("spec.upgradeStrategy.rollingUpdate.paused",))
    assert not explained(obj, definition=lacks)
    assert explained(obj, definition=InstalledDefinition(missing=("spec.other",)))
