"""The controller by upstream's rows: start, results, errors, priorities, handlers, owners."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES
from controller.runtime.kind import ManagerMisuse, Owned, Terminal
from controller.runtime.operator import Operator
from controller.runtime.plan import Plan, Replace
from controller.runtime.settings import Settings
from controller.runtime.watches import enqueue_handler, own_key, owner_keys
from controller.testing.faults import DelayedResponse, ErrorResponse, Refused, Rule
from informers import Added, Deleted, Handler, Updated
from tests.fakes.operators import queued, unready, unready_cache
from tests.runtime.kit import Book, ScriptedClient, child, target
from tests.runtime.widgets import (
    GADGETS,
    WIDGETS,
    RunningOperator,
    Seen,
    WidgetKind,
    WidgetWorld,
    widget_world,
)
from workqueue import LOW_PRIORITY

CONTROLLER = "widget-controller"


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world


def sample(registry: CollectorRegistry, name: str, **labels: str) -> float:
    value = registry.get_sample_value(name, {"controller": CONTROLLER, **labels})
    return -1 if value is None else value


def failing(names: set[str], error: Exception) -> Callable[[Seen], Plan | None]:
    def plan(seen: Seen) -> Plan | None:
        if seen.widget.metadata.name in names:
            raise error
        return None

    return plan


def lines(logs: list[dict[str, Any]], name: str = "f") -> list[dict[str, Any]]:
    return [line for line in logs if line["event"] == "reconcile" and line["name"] == name]


def queue_of(operator: RunningOperator):
    return operator.operator.controllers[CONTROLLER].queue


def settings(**changes: Any) -> Settings:
    return Settings(**{"workers": 4, "metrics_address": "", "health_address": "", **changes})


# -- start ----------------------------------------------------------------------------------------


async def test_nothing_runs_before_the_caches_are_ready_and_nothing_is_forgotten(
    widgets: WidgetWorld,
):
    await widgets.create("early", size=1)
    refused = Rule(Refused(), "configmaps", frozenset({"list", "watch"}))
    operator = widgets.start(rules=[refused])
    operator.enqueue("default/asked-for")
    await widgets.settle(30)
    assert operator.kind.seen == []
    assert queued(operator) == 2
    assert "configmaps in all namespaces" in unready_cache(operator)
    operator.transport.rules = []
    await widgets.counted(1, "early")
    assert unready_cache(operator) is None


async def test_a_cache_that_cannot_be_read_is_named_with_verb_scope_and_remedy(
    widgets: WidgetWorld,
):
    widgets.server.audit.authorizer = lambda request: request.resource != "configmaps"
    with capture_logs() as logs:
        operator = widgets.start()
        await widgets.settle(60)
        text = unready(operator, "readyz", "caches")
        assert await operator.task == 1
    assert widgets.loop.time() == pytest.approx(120, abs=5)
    (failed,) = [line for line in logs if line["event"] == "operator.failed"]
    for told in (text, failed["error"]):
        assert "cannot list configmaps in all namespaces (widget)" in told.lower()
        assert 'cannot list resource "configmaps"' in told
        assert "at the cluster scope" in told
    assert 'Grant the verbs "list" and "watch" on configmaps' in failed["error"]
    assert "by a ClusterRole" in failed["error"]
    assert "\n" not in failed["error"], "one paragraph"


async def test_a_server_that_never_answers_ends_in_the_same_bound(widgets: WidgetWorld):
    silent = Rule(DelayedResponse(1e5), "configmaps", frozenset({"list", "watch"}))
    operator = widgets.start(rules=[silent])
    assert await operator.task == 1
    assert widgets.loop.time() < 130


async def test_missing_definitions_are_answered_with_how_to_install_them():
    async with widget_world() as world:
        await world.user.delete(CRDS, "", "widgets.test.dev")
        with capture_logs() as logs:
            assert await world.start().task == 1
        (failed,) = [line for line in logs if line["event"] == "operator.failed"]
        assert "does not serve widgets.test.dev" in failed["error"]


async def test_an_operator_runs_once(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.settle(1)
    with pytest.raises(ManagerMisuse, match="once"):
        await operator.operator.run(asyncio.Event())


async def test_kinds_that_watch_the_same_share_one_informer(widgets: WidgetWorld):
    operator = widgets.start(kind=WidgetKind())
    await widgets.settle(5)
    assert widgets.requests("watch", resource="widgets.test.dev") == 1
    await operator.stop()
    gadgets = WidgetKind(name="gadget-controller")
    gadgets.primary = GADGETS
    both = Operator(
        widgets.user,
        [WidgetKind(), gadgets],
        settings(),
        clock=widgets.loop,
        wall=widgets.wall,
        rng=random.Random(1),
        registry=CollectorRegistry(),
    )
    watched = [str(cache.scope.resource) for cache in both.caches.caches]
    assert sorted(watched) == ["configmaps", "gadgets.test.dev", "widgets.test.dev"]


async def test_two_controllers_of_one_name_are_refused(widgets: WidgetWorld):
    with pytest.raises(ValueError, match="same name"):
        Operator(
            widgets.user,
            [WidgetKind(), WidgetKind()],
            settings(),
            clock=widgets.loop,
            wall=widgets.wall,
            rng=random.Random(1),
            registry=CollectorRegistry(),
        )


async def test_what_is_woken_before_the_start_is_kept(widgets: WidgetWorld):
    operator = widgets.start()
    operator.enqueue("default/never-made")
    with capture_logs() as logs:
        await widgets.settle(5)
    assert [line["result"] for line in lines(logs, "never-made")] == ["gone"]


# -- errors and results ---------------------------------------------------------------------------


async def test_an_error_in_a_group_of_tasks_is_reported_without_the_group(widgets: WidgetWorld):
    inner = ExceptionGroup("unhandled errors in a TaskGroup", [ValueError("no such colour")])
    outer = ExceptionGroup("unhandled errors in a TaskGroup", [inner])
    widgets.start(kind=WidgetKind(plan_hook=failing({"bad"}, outer)))
    await widgets.create("bad", size=1)
    with capture_logs():
        await widgets.settle(3)
    [said] = (await widgets.widget("bad")).status.conditions
    assert said["message"] == "ValueError: no such colour"
    events = await widgets.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    assert {event["note"] for event in events["items"]} == {"ValueError: no such colour"}


async def test_an_exception_costs_only_its_own_key(widgets: WidgetWorld):
    registry = CollectorRegistry()
    bad = {"bad"}
    kind = WidgetKind(plan_hook=failing(bad, RuntimeError("cannot plan this")))
    operator = widgets.start(kind=kind, registry=registry, settings=settings(workers=1))
    await widgets.create("bad", size=1)
    await widgets.create("good", size=2)
    with capture_logs() as logs:
        await widgets.counted(2, "good")
        await widgets.settle(3)
    assert "reconcile.exception" in {line["event"] for line in logs}, "with its traceback"
    assert sample(registry, "controller_runtime_reconcile_panics_total") >= 2
    assert sample(registry, "controller_runtime_reconcile_errors_total") >= 2
    assert queue_of(operator).num_requeues("default/bad") >= 2
    events = await widgets.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    notes = [(e["regarding"]["name"], e["reason"], e["note"]) for e in events["items"]]
    assert ("bad", "ReconcileError", "RuntimeError: cannot plan this") in notes
    [said] = (await widgets.widget("bad")).status.conditions
    assert (said["type"], said["status"]) == ("Ready", "False")
    assert ("bad", said["reason"], said["message"]) in notes
    writes = widgets.requests("patch", resource="widgets")
    with capture_logs():
        await widgets.settle(60)
    assert widgets.requests("patch", resource="widgets") == writes, "said once"
    bad.clear()
    await widgets.counted(1, "bad", seconds=600)
    [said] = (await widgets.widget("bad")).status.conditions
    assert said["status"] == "True"


async def test_what_takes_too_long_is_cut_off_and_then_unknown(widgets: WidgetWorld):
    registry = CollectorRegistry()
    slow = Rule(DelayedResponse(20.0), "configmaps", frozenset({"create"}), times=1)
    widgets.start(rules=[slow], registry=registry, settings=settings(reconcile_timeout_seconds=5.0))
    await widgets.create(size=1)
    await widgets.counted(1)
    assert widgets.loop.time() < 15
    assert sample(registry, "controller_runtime_reconcile_timeouts_total") == 1
    assert sample(registry, "controller_runtime_reconcile_panics_total") == 0
    assert widgets.created == [widgets.created[0]], "repeated under the same name"


class SomebodyElsesTimeout(WidgetKind):
    def status_after(self, observation, plan, failures, now):
        raise TimeoutError("somebody else's")


@pytest.mark.parametrize("cause", ["stop", "own error", "slow but in time"])
async def test_the_time_out_metric_counts_nothing_else(widgets: WidgetWorld, cause: str):
    registry = CollectorRegistry()
    kind = WidgetKind()
    slow = Rule(DelayedResponse(8.0), "configmaps", frozenset({"create"}), times=1)
    if cause == "own error":
        kind = SomebodyElsesTimeout()
        slow = Rule(ErrorResponse(422, "Invalid"), "configmaps", frozenset({"create"}))
    operator = widgets.start(
        kind=kind,
        rules=[slow],
        registry=registry,
        settings=settings(reconcile_timeout_seconds=10.0, grace_seconds=2.0),
    )
    await widgets.create(size=1)
    await widgets.settle(1 if cause == "stop" else 12)
    await operator.stop()
    assert sample(registry, "controller_runtime_reconcile_timeouts_total") == 0


async def test_a_terminal_error_is_said_and_not_retried(widgets: WidgetWorld):
    registry = CollectorRegistry()
    kind = WidgetKind(plan_hook=failing({"f"}, Terminal("never", reason="Hopeless")))
    operator = widgets.start(kind=kind, registry=registry)
    await widgets.create(size=1)
    await widgets.settle(600)
    assert len(kind.seen) == 2, "the condition that says so wakes it once"
    assert sample(registry, "controller_runtime_terminal_reconcile_errors_total") == 2
    assert sample(registry, "controller_runtime_reconcile_errors_total") == 2
    assert sample(registry, "controller_runtime_reconcile_panics_total") == 0
    assert queue_of(operator).num_requeues("default/f") == 0
    events = await widgets.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    assert [e["reason"] for e in events["items"]] == ["Hopeless"]
    [said] = (await widgets.widget()).status.conditions
    assert (said["status"], said["reason"]) == ("False", "Hopeless")


async def test_the_back_off_is_reset_only_by_success(widgets: WidgetWorld):
    refused = Rule(ErrorResponse(422, "Invalid"), "configmaps", frozenset({"create"}), times=4)
    operator = widgets.start(rules=[refused])
    queue, counts = queue_of(operator), []
    await widgets.create(size=1)
    while widgets.children == 0:
        counts.append(queue.num_requeues("default/f"))
        await asyncio.sleep(0.01)
    assert sorted(set(counts)) == [0, 1, 2, 3, 4]
    assert counts == sorted(counts)
    await widgets.counted(1)
    assert queue.num_requeues("default/f") == 0


async def test_a_wake_up_comes_in_time_and_without_back_off(widgets: WidgetWorld):
    kind = WidgetKind(plan_hook=lambda _seen: Plan(requeue_after=7.0))
    operator = widgets.start(kind=kind)
    await widgets.create(size=1)
    await widgets.settle(30)
    assert len(kind.seen) == 5
    assert queue_of(operator).num_requeues("default/f") == 0


async def test_an_error_wins_over_a_wake_up(widgets: WidgetWorld):
    kind = WidgetKind()
    kind.plan_hook = lambda seen: Plan(
        stages=((kind.create(seen.widget, "child"),),), requeue_after=5000.0
    )
    refused = Rule(ErrorResponse(422, "Invalid"), "configmaps", frozenset({"create"}), times=3)
    widgets.start(kind=kind, rules=[refused])
    await widgets.create(size=1)
    await widgets.eventually(lambda: widgets.children == 1, seconds=10)


async def test_initial_objects_have_low_priority_and_keep_it_after_an_error(widgets: WidgetWorld):
    await widgets.create("old", size=1)
    errors = [RuntimeError("first")]

    def once(_seen: Seen) -> Plan | None:
        if errors:
            raise errors.pop()
        return None

    with capture_logs() as logs:
        widgets.start(kind=WidgetKind(plan_hook=once))
        await widgets.counted(1, "old")
        await widgets.create("new", size=1)
        await widgets.counted(1, "new")
    first, second = lines(logs, "old")[:2]
    assert (first["result"], first["priority"]) == ("error", LOW_PRIORITY)
    assert second["priority"] == LOW_PRIORITY
    assert lines(logs, "new")[0]["priority"] == 0


async def test_each_result_has_its_label(widgets: WidgetWorld):
    plans: list[Plan | Exception] = []

    def next_plan(seen: Seen) -> Plan | None:
        plan = plans.pop(0) if plans else Plan()
        if isinstance(plan, Exception):
            raise plan
        return plan

    registry = CollectorRegistry()
    kind = WidgetKind(plan_hook=next_plan)
    operator = widgets.start(kind=kind, registry=registry)
    await widgets.settle(1)
    total = "controller_runtime_reconcile_total"
    labels = ["success", "error", "requeue", "requeue_after"]
    assert [sample(registry, total, result=label) for label in labels] == [0, 0, 0, 0]
    widget = await widgets.create(size=0)
    await widgets.settle(1)
    assert sample(registry, total, result="success") == 1
    many = tuple(kind.create(widget, f"b{number}") for number in range(65))
    for plan, label in [
        (Plan(requeue_after=1000.0), "requeue_after"),
        (RuntimeError("no"), "error"),
        (Plan(stages=(many,)), "requeue"),
    ]:
        plans.append(plan)
        before = sample(registry, total, result=label)
        operator.enqueue("default/f")
        await widgets.settle(1)
        assert sample(registry, total, result=label) == before + 1, label


async def test_each_run_has_an_id_of_its_own_in_its_line(widgets: WidgetWorld):
    with capture_logs() as logs:
        widgets.start()
        await widgets.create(size=2)
        await widgets.counted(2)
    ids = [line["reconcile_id"] for line in lines(logs)]
    assert len(ids) == len({uuid.UUID(text) for text in ids}) >= 2
    first = lines(logs)[0]
    assert (first["controller"], first["kind"]) == (CONTROLLER, "Widget")
    assert (first["namespace"], first["name"]) == ("default", "f")
    assert first["writes"] == {"create": 2, "status": 1}


def test_a_terminal_error_keeps_its_cause():
    inner = ValueError("inner")
    with pytest.raises(Terminal) as caught:
        raise Terminal("outer") from inner
    assert caught.value.__cause__ is inner
    assert caught.value.reason == "TerminalError"


# -- from events to keys --------------------------------------------------------------------------


@dataclass
class Keys:
    added: list[tuple[str, int]]

    def add(self, key: str, *, priority: int) -> None:
        self.added.append((key, priority))


def owned_by(
    name: str,
    uid: str = "u",
    *,
    group: str = "test.dev",
    kind: str = "Widget",
    version: str = "v1",
    namespace: str = "default",
    revision: str = "1",
) -> KubeObject:
    api_version = f"{group}/{version}"
    reference = OwnerReference(
        api_version=api_version, kind=kind, name=name, uid=uid, controller=True
    )
    return KubeObject(
        metadata=ObjectMeta(
            name="child",
            namespace="default",
            resource_version=revision,
            owner_references=(reference,),
        )
    )


def orphan(revision: str = "1") -> KubeObject:
    return KubeObject(
        metadata=ObjectMeta(
            name="child",
            namespace="default",
            resource_version=revision,
            labels={"widget": "by-label"},
        )
    )


def owner_handler(
    *, uid: str | None = None, primary=WIDGETS, owned: Owned[Any] | None = None
) -> tuple[Handler[Any], Keys]:
    keys = Keys([])
    mapped = owner_keys(primary, owned or Owned(CONFIG_MAPS), lambda _key: uid)
    return enqueue_handler(keys, mapped), keys


def test_an_owner_of_both_states_is_enqueued_once():
    handler, keys = owner_handler()
    handler(Updated(owned_by("f", revision="1"), owned_by("f", revision="2")))
    assert keys.added == [("default/f", 0)]


def test_a_change_of_owner_wakes_both_and_an_orphan_those_that_its_label_names():
    handler, keys = owner_handler()
    handler(Updated(owned_by("a", revision="1"), owned_by("b", revision="2")))
    assert keys.added == [("default/a", 0), ("default/b", 0)]
    by_label = Owned(
        CONFIG_MAPS, also_enqueues=lambda obj: [f"default/{(obj.metadata.labels or {})['widget']}"]
    )
    handler, keys = owner_handler(owned=by_label)
    handler(Added(orphan(), initial=False))
    assert keys.added == [("default/by-label", 0)]
    handler, keys = owner_handler()
    handler(Added(orphan(), initial=False))
    assert keys.added == []


def test_a_cluster_scoped_owner_has_a_key_without_namespace():
    reference = OwnerReference(
        api_version="v1", kind="Namespace", name="ns", uid="u", controller=True
    )
    child = KubeObject(
        metadata=ObjectMeta(name="child", namespace="ns", owner_references=(reference,))
    )
    handler, keys = owner_handler(primary=NAMESPACES)
    handler(Added(child, initial=False))
    assert keys.added == [("ns", 0)]


def test_the_mapping_is_applied_to_both_states():
    keys = Keys([])
    handler = enqueue_handler(
        keys, lambda states, _exists: [*(each.metadata.resource_version for each in states), "both"]
    )
    handler(Updated(orphan("1"), orphan("2")))
    assert keys.added == [("1", 0), ("2", 0), ("both", 0)]


def test_only_initial_objects_and_unchanged_revisions_are_low():
    keys = Keys([])
    handler = enqueue_handler(keys, own_key)
    handler(Added(orphan(), initial=True))
    handler(Added(orphan(), initial=False))
    handler(Updated(orphan("1"), orphan("1")))
    handler(Updated(orphan("1"), orphan("2")))
    handler(Deleted(orphan()))
    priorities = [priority for _, priority in keys.added]
    assert priorities == [LOW_PRIORITY, 0, LOW_PRIORITY, 0, 0]


def test_a_deletion_that_was_not_observed_enqueues_the_owner():
    handler, keys = owner_handler(uid="another")
    handler(Deleted(owned_by("f", "u")))
    assert keys.added == [("default/f", 0)]


def test_an_owner_that_was_replaced_is_woken_only_by_the_end_of_its_child():
    handler, keys = owner_handler(uid="second")
    handler(Added(owned_by("f", "first"), initial=False))
    handler(Updated(owned_by("f", "first"), owned_by("f", "first", revision="2")))
    assert keys.added == []
    handler(Deleted(owned_by("f", "first")))
    handler(Added(owned_by("f", "second"), initial=False))
    assert keys.added == [("default/f", 0)] * 2


def test_owners_are_matched_by_group_and_kind_whatever_the_version():
    handler, keys = owner_handler()
    handler(Added(owned_by("f", version="v1alpha7"), initial=False))
    assert keys.added == [("default/f", 0)]
    handler(Added(owned_by("f", version="v1/odd"), initial=False))
    handler(Added(owned_by("f", group="other.dev"), initial=False))
    handler(Added(owned_by("f", kind="Gadget"), initial=False))
    assert len(keys.added) == 1, "what cannot be parsed and what is of another kind is ignored"


def test_a_child_enqueues_its_owner_and_those_that_its_kind_names_if_they_are_served():
    owned = Owned(CONFIG_MAPS, also_enqueues=lambda obj: ("near/a", "far/a"))
    near = owner_keys(WIDGETS, owned, lambda _key: None, is_served=lambda key: key != "far/a")
    assert near([owned_by("f")], True) == ["default/f", "near/a"]


# -- owners and changes ---------------------------------------------------------------------------


async def test_a_change_that_renames_is_refused():
    book, client = Book(), ScriptedClient()
    client.objects["a"] = child("a", 5)
    rename = Replace(target("a"), "uid-a", {"metadata": {"name": "b"}})
    with pytest.raises(ValueError, match="must not rename"):
        await book.perform(client, rename)
    assert client.verbs("replace") == []
