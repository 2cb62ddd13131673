"""The referees see what must never be: each fault here is put into the product or its requests."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.kube.resources import CONFIG_MAPS
from controller.ray.api.upgrade_strategy import ReplicaBudget
from controller.ray.cluster import rolling
from controller.ray.job import table
from controller.ray.rolling import Moves
from controller.runtime.plan import JsonPatch, MergePatch, Plan, Replace, Target, Write
from controller.testing.journal import Attributes, JournalEntry
from tests.integration.harness import example_cluster
from tests.simulation.effort import MOST_A_MINUTE, Effort
from tests.simulation.orders import Orders
from tests.simulation.referee import ACTOR, Intent, Referee
from tests.simulation.scenario import (
    Cluster,
    Compact,
    EditPods,
    Fate,
    Group,
    Job,
    Rolling,
    Scenario,
    Step,
    Surroundings,
    TakeNode,
)
from tests.simulation.simulation import play

LOSES_ITS_HEAD = Scenario(
    Surroundings(scheduling=True),
    (),
    (Step(15.0, TakeNode(0, "vanish")), Step(0.0, TakeNode(1, "vanish"))),
    jobs=(Job(fates=(Fate(running=40.0),), disruptions=1),),
)
ROLLS = Scenario(
    Surroundings(),
    (Cluster((Group(0, 2),), storage="redis", rolling=Rolling()),),
    (Step(10.0, EditPods(0, 0, 1)), Step(0.0, EditPods(0, -1, 1)), Step(60.0, Compact())),
)
FORGETS = msgspec.structs.replace(
    ROLLS, clusters=(msgspec.structs.replace(ROLLS.clusters[0], storage=""),)
)


@pytest.mark.slow
@pytest.mark.parametrize("life", [LOSES_ITS_HEAD, ROLLS])
def test_what_is_done_well_is_not_blamed(life: Scenario):
    assert play(life).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("life", "fault", "words"),
    [
        (LOSES_ITS_HEAD, (table, "is_lost_to_disruption", False), "counts an attempt whose head"),
        (ROLLS, (ReplicaBudget, "surge_of", 2), "is number 4, at most 3 were asked for"),
        (ROLLS, (ReplicaBudget, "unavailable_of", 1), "which leaves 1 of 2 available"),
        (FORGETS, (rolling, "is_gcs_fault_tolerant", True), "head"),
        (ROLLS, (rolling, "next_moves", Moves()), "not reached"),
    ],
)
def test_a_fault_of_the_product_is_seen(
    life: Scenario, fault: tuple[Any, str, object], words: str, monkeypatch: pytest.MonkeyPatch
):
    where, name, result = fault
    monkeypatch.setattr(where, name, lambda *_args, **_options: result)
    assert any(words in each for each in play(life).violations)


# -- a second pod beside one whose labels were taken off -------------------------------------------


CLUSTER: dict[str, Any] = example_cluster(replicas=1)
CLUSTER["metadata"] |= {"uid": "uid-cluster", "generation": 1, "namespace": "default"}


def pod(name: str, role: str) -> dict[str, Any]:
    group = "headgroup" if role == "head" else CLUSTER["spec"]["workerGroupSpecs"][0]["groupName"]
    labels = {"is-ray-node": "yes", "cluster": "example", "node-type": role, "group": group}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {f"ray.io/{key}": value for key, value in labels.items()},
            "ownerReferences": [{"uid": "uid-cluster", "controller": True}],
        },
        "spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]},
    }


def event(kind: str, obj: dict[str, Any]) -> Any:
    of = "pods" if obj["kind"] == "Pod" else "rayclusters.ray.io"
    return SimpleNamespace(type=kind, table=of, current=SimpleNamespace(object=obj))


@pytest.mark.parametrize("role", ["head", "worker"])
def test_a_second_one_beside_a_pod_without_labels_is_found(role: str):
    referee = Referee(SimpleNamespace(time=lambda: 5.0))  # type: ignore[arg-type]
    referee(event("ADDED", CLUSTER))
    for name in ("first", "second"):
        referee._creates[name] = Intent(1, 1.0)
    token = ACTOR.set("operator-1")
    try:
        first = pod("first", role)
        referee(event("ADDED", first))
        assert referee.violations == []
        first["metadata"]["labels"] = {}
        referee(event("MODIFIED", first))
        referee(event("ADDED", pod("second", role)))
    finally:
        ACTOR.reset(token)
    assert "second" in referee.violations[0]


# -- what an operator sends that its last plan did not contain, and too many requests --------------

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Target(CONFIG_MAPS, "default", "a")
MERGE = MergePatch(TARGET, "uid", {"data": {"k": "v", "gone": None}})
JSON = JsonPatch(TARGET, "uid", ({"op": "add", "path": "/data/k", "value": "v"},))
PUT = Replace(TARGET, "uid", {"data": {"k": "v"}})


def entry(verb: str, body: Any = None) -> JournalEntry:
    about = Attributes(verb, "configmaps", "default", "a")
    return JournalEntry(0, about, body=msgspec.json.encode(body))


def violations(*plans: Write | None, verb: str = "patch", body: Any = None) -> list[str]:
    """Return what is said of a request after these plans of one object."""
    found: list[str] = []
    orders = Orders(SimpleNamespace(time=lambda: 1.0), found)  # type: ignore[arg-type]
    kind: Any = SimpleNamespace(
        name="widgets", observe=lambda _key, _reads: None, plan=lambda write, _now: plan(write)
    )
    orders.witness(kind)
    for write in plans:
        kind.observe("default/f", None)
        kind.plan(write, NOW)
    orders(entry(verb, body))
    return found


def plan(write: Write | None) -> Plan:
    return Plan(stages=((write,),)) if write else Plan()


@pytest.mark.parametrize(
    ("write", "verb", "body"),
    [
        (MERGE, "patch", {"metadata": {"uid": "uid"}, "data": {"k": "v", "gone": None}}),
        (JSON, "patch", [{"op": "add", "path": "/data/k", "value": "v"}]),
        (PUT, "update", {"metadata": {"uid": "uid"}, "data": {"k": "v", "theirs": "w"}}),
    ],
)
def test_a_change_is_right_while_the_last_plan_contains_it(write: Write, verb: str, body: Any):
    assert violations(write, verb=verb, body=body) == []
    assert "contained no change" in violations(write, None, verb=verb, body=body)[0]
    assert "contained another change" in violations(write, verb=verb, body={"data": {}})[0]


def test_too_many_requests_in_a_minute_are_found():
    found: list[str] = []
    times = iter(range(10_000))
    effort = Effort(SimpleNamespace(time=lambda: next(times) / 10), found)  # type: ignore[arg-type]
    for _ in range(MOST_A_MINUTE - 1):
        effort(entry("get"))
    assert found == []
    effort(entry("get"))
    assert "requests" in found[0]
