"""What an operator sends that its last plan did not contain is found, as are too many requests."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.kube.resources import CONFIG_MAPS
from controller.runtime.plan import JsonPatch, MergePatch, Plan, Replace, Target
from controller.testing.journal import Attributes, JournalEntry
from tests.simulation.effort import MOST_A_MINUTE, Effort
from tests.simulation.orders import Orders

if TYPE_CHECKING:
    from controller.runtime.plan import Write

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
