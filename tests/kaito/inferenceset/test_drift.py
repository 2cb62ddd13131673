"""Drifted nodes of an InferenceSet: replaced for one replica after the other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_POOLS, POOL_CLAIMS, NodeClaim, NodePool
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.runtime.plan import JsonPatch, Plan
from tests.kaito.inferenceset.given import Given, replica_of, writes
from tests.kaito.support import inference_set
from tests.kaito.workspace.given_pool import CLASSES

SETTINGS = KaitoOptions(provisioner=Provisioner.NODE_POOLS, node_classes=CLASSES)


def given(*pools: str, other: str = "") -> Given:
    """A set with a replica and a pool for each, in words: `ready closed drifted`."""
    found = Given(inference_set(replicas=len(pools)), SETTINGS)
    found.reads.add(NODE_POOLS).add(POOL_CLAIMS)
    for name, words in zip(found.names, pools, strict=False):
        found.with_replicas(replica_of(name, ready="ready" in words, terminating="going" in words))
        with_pool(found, name, words)
    if other:
        with_pool(found, "other", other)
    return found


def with_pool(found: Given, workspace: str, words: str) -> None:
    """A pool and a claim of it."""
    nodes = next((each for each in ("1", "2") if each in words.split()), "0")
    own = {
        labels.POOL_WORKSPACE: workspace,
        labels.POOL_WORKSPACE_NAMESPACE: "default",
        labels.POOL_INFERENCE_SET: "models",
        labels.POOL_INFERENCE_SET_NAMESPACE: "default",
    }
    budgets: list[Any] = [{"nodes": "5", "reasons": ["Empty"]}]
    if "bare" not in words:
        budgets.append({"nodes": nodes, "reasons": ["Drifted"]})
    pool = {
        "metadata": {"name": f"default-{workspace}", "uid": f"p-{workspace}", "labels": own},
        "spec": {"disruption": {"budgets": budgets}},
    }
    if "leaving" in words:
        pool["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    claim = {
        "metadata": {
            "name": f"claim-{workspace}",
            "labels": {**own, labels.NODE_POOL: f"default-{workspace}"},
        },
        "status": {
            "conditions": [{"type": "Drifted", "status": "True" if "drifted" in words else "False"}]
        },
    }
    found.reads.add(NODE_POOLS, msgspec.convert(pool, NodePool))
    found.reads.add(POOL_CLAIMS, msgspec.convert(claim, NodeClaim))


def changes(plan: Plan) -> list[tuple[str, str]]:
    """The pools whose budget is changed, and to what."""
    patches = [each for each in writes(plan) if isinstance(each, JsonPatch)]
    return [(each.target.name, str(each.operations[-1]["value"])) for each in patches]


@pytest.mark.parametrize(
    ("pools", "change"),
    [
        (["ready", "ready"], None),
        (["ready", "ready drifted"], (1, "1")),
        (["ready 1 drifted", "ready drifted"], None),
        (["1", "ready drifted"], None),
        (["ready 1", "ready drifted"], (0, "0")),
        (["ready 1", "ready"], (0, "0")),
        (["ready 2 drifted", "ready drifted"], (1, "1")),
        (["ready 2", "ready"], None),
        (["ready bare drifted", "ready"], None),
        (["ready drifted leaving", "ready"], None),
        (["going drifted", "ready"], None),
        (["drifted", "ready"], (0, "1")),
    ],
    ids=[
        "nothing has drifted",
        "a drifted one is opened",
        "waits while the open one has drifted nodes",
        "waits until the open one serves",
        "closes the open one before it opens another",
        "closes the last one",
        "a budget that a person chose holds nobody up",
        "a budget that a person chose stays",
        "a pool without a budget stays",
        "a pool that is deleted stays",
        "the pool of a replica that is deleted stays",
        "also of one that does not serve",
    ],
)
def test_one_pool_after_the_other_may_replace_its_nodes(
    pools: list[str], change: tuple[int, str] | None
):
    found = given(*pools)
    names = [f"default-{name}" for name in found.names]
    expected = [] if change is None else [(names[change[0]], change[1])]
    assert changes(found.plan()) == expected


def test_a_change_names_what_it_was_decided_from_and_reports_it_in_kaitos_words():
    found = given("ready drifted")
    (patch,) = writes(found.plan())
    name, path = found.names[0], "/spec/disruption/budgets/1/nodes"
    assert isinstance(patch, JsonPatch)
    assert patch.operations == (
        {"op": "test", "path": "/metadata/uid", "value": f"p-{name}"},
        {"op": "test", "path": path, "value": "0"},
        {"op": "replace", "path": path, "value": "1"},
    )
    for words, reason, message in (
        ("ready drifted", "DriftStarted", "Started drift replacement for workspace"),
        ("ready 1", "DriftComplete", "Drift replacement complete for workspace"),
    ):
        (patch,) = writes(given(words).plan())
        assert isinstance(patch, JsonPatch)
        event = patch.on_success
        assert event is not None
        assert (event.reason, event.note) == (reason, f"{message} default/{name}")


def test_without_node_pools_in_the_api_the_set_does_everything_else():
    found = given("ready drifted")
    found.reads.served -= {NODE_POOLS, POOL_CLAIMS}
    assert writes(found.plan()) == []
    assert found.condition()[0] == "True"
