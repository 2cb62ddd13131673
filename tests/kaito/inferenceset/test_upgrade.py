"""`autoUpgrade` of InferenceSets: one replica after the other gets the operator's image."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.kaito.api import labels
from controller.kaito.api.inferenceset import INFERENCE_SETS, InferenceSet
from controller.kaito.api.options import KaitoOptions
from controller.kaito.workloads.pods import BASE_TAG, base_image
from controller.kube.resources import STATEFUL_SETS
from controller.runtime.plan import Create, Delete, MergePatch, Plan
from tests.kaito.inferenceset.given import NOW, Given, names, replica_of, server_of, writes
from tests.kaito.support import inference_set

NEW, OLD = base_image(KaitoOptions()), base_image(KaitoOptions()).replace(BASE_TAG, "0.0.9")
ASKED = {labels.UPGRADE_TO: BASE_TAG}


def given(*servers: str, policy: dict[str, Any] | None = None, **more: Any) -> Given:
    """A set with a replica for each server, in words: `old ready`, `new`, `old asked`, `none`."""
    upgrade = {"enabled": True, **(policy or {})}
    found = Given(
        inference_set(replicas=more.pop("replicas", len(servers)), autoUpgrade=upgrade, **more)
    )
    for name, words in zip(found.names, servers, strict=False):
        asked = ASKED if "asked" in words else {}
        each = replica_of(name, ready="ready" in words, terminating="going" in words, labels=asked)
        found.with_replicas(each)
        if "none" not in words:
            found.with_server(each, NEW if "new" in words else OLD, ready="ready" in words)
    return found


def asked(plan: Plan) -> list[str]:
    """The replicas that are asked for the new image."""
    patches = [each for each in writes(plan) if isinstance(each, MergePatch)]
    return [
        each.target.name
        for each in patches
        if each.patch["metadata"]["labels"].get(labels.UPGRADE_TO) == BASE_TAG
    ]


@pytest.mark.parametrize(
    ("servers", "position", "count"),
    [
        (["old ready", "old ready"], 0, 2),
        (["new ready asked", "old ready"], 1, 1),
        (["old ready", "old"], 1, 2),
        (["old ready asked", "old ready"], None, 2),
        (["new asked", "old ready"], None, 2),
        (["new", "old ready"], None, 1),
        (["none", "old ready"], None, 1),
        (["new ready", "new ready"], None, 0),
        (["old ready going", "old ready"], None, 1),
    ],
    ids=[
        "one is asked first",
        "the next one follows when it is ready",
        "one that does not serve goes first",
        "waits until the server changes",
        "waits until the new server is ready",
        "waits for one that was new and fails",
        "waits for one without a server",
        "has finished",
        "waits for the end of one",
    ],
)
def test_in_place_one_replica_after_the_other_is_asked_for_the_new_image(
    servers: list[str], position: int | None, count: int
):
    found = given(*servers)
    assert asked(found.plan()) == ([] if position is None else [found.names[position]])
    assert names(found.plan(), Create) == names(found.plan(), Delete) == []
    assert found.status["autoUpgrade"] == {"numDriftedWorkspaces": count}


def test_a_pod_of_the_old_template_that_is_still_ready_is_waited_for():
    found = given("new ready", "old ready")
    each = replica_of(found.names[0])
    server = server_of(each, NEW, ready=True)
    stale = msgspec.structs.replace(server.status, updated_replicas=0)
    found.reads.add(STATEFUL_SETS, msgspec.structs.replace(server, status=stale))
    assert asked(found.plan()) == []


def test_with_a_surge_a_new_replica_comes_before_an_old_one_goes():
    surge = {"strategy": "Surge"}
    begun = given("old ready", "old ready", policy=surge)
    assert names(begun.plan(), Create) == [begun.names[2]]
    assert asked(begun.plan()) == names(begun.plan(), Delete) == []
    waits = given("old ready", "old ready", "new", policy=surge, replicas=2)
    assert writes(waits.plan()) == []
    serves = given("old ready", "old ready", "new ready", policy=surge, replicas=2)
    assert names(serves.plan(), Delete) == [min(serves.names[:2])]
    going = given("old going", "old ready", "new ready", policy=surge, replicas=2)
    assert writes(going.plan()) == []


@pytest.mark.parametrize("strategy", ["InPlace", "Surge"])
@pytest.mark.parametrize(
    ("window", "wait"),
    [
        ({"schedule": "0 22 * * *"}, None),
        ({"schedule": "1 21 * * *"}, None),
        ({"schedule": "59 20 * * *"}, 19 * 3600 + 59 * 60),
        ({"schedule": "0 2 * * *"}, 3600),
        ({"schedule": "30 0 * * *", "duration": "29m"}, 23 * 3600 + 1800),
        ({"schedule": "30 0 * * *", "duration": "31m"}, None),
    ],
)
def test_an_upgrade_begins_only_while_its_window_is_open(
    strategy: str, window: dict[str, str], wait: float | None
):
    policy = {"strategy": strategy, "maintenanceWindow": window}
    found = given("old ready", policy=policy)
    plan = found.plan()
    assert bool(writes(plan)) == (wait is None)
    assert plan.requeue_after == wait


def test_a_window_that_never_opens_is_not_waited_for():
    window = {"schedule": "0 0 30 2 *"}
    plan = given("old ready", policy={"maintenanceWindow": window}).plan()
    assert (writes(plan), plan.requeue_after) == ([], None)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"schedule": ""}, "missing field(s): spec.autoUpgrade.maintenanceWindow.schedule"),
        ({"schedule": "x"}, "invalid cron expression: 'x' has 1 fields instead of five"),
        ({"schedule": "@daily", "duration": "0s"}, "must be a positive duration"),
        ({"schedule": "@daily", "duration": "soon"}, "'soon' is not a duration"),
    ],
)
def test_a_window_that_cannot_be_read_is_refused_in_kaitos_words(
    window: dict[str, str], message: str
):
    found = given("old ready", policy={"maintenanceWindow": window})
    assert writes(found.plan()) == []
    assert found.condition()[1] == "InvalidInferenceSetSpec"
    assert message in found.condition()[2]


def test_the_end_of_an_upgrade_is_recorded_once():
    found = given("new ready")
    found.set = with_status(found.set, {"numDriftedWorkspaces": 1})
    found.reads.add(INFERENCE_SETS, found.set)
    ended = found.status["autoUpgrade"]
    assert ended == {"numDriftedWorkspaces": 0, "lastSuccessfulUpgradeTime": "2026-01-01T01:00:00Z"}
    found.reads.add(INFERENCE_SETS, with_status(found.set, ended))
    later = found.kind.plan(found.observe(), NOW + timedelta(hours=1)).status
    assert later is not None
    assert later.wanted["autoUpgrade"] == {"numDriftedWorkspaces": 0}


def test_an_upgrade_that_is_no_longer_asked_for_is_not_counted():
    for found in (Given(inference_set()), given("old ready")):
        found.set = with_status(found.set, {"numDriftedWorkspaces": 1})
        if found.set.spec.get("autoUpgrade"):
            found.kind = kind_without_upgrades()
        found.reads.add(INFERENCE_SETS, found.set)
        assert found.status["autoUpgrade"] == {"numDriftedWorkspaces": None}
        assert asked(found.plan()) == []


def test_while_the_gate_is_off_the_field_is_named_as_without_effect():
    found = given("old ready")
    assert found.condition("FeaturesSupported") == ("", "", "")
    found.kind = kind_without_upgrades()
    assert found.condition("FeaturesSupported") == (
        "False",
        "FeatureGateOff",
        (
            "accepted, but without effect while the feature gate enableBaseImageAutoUpgrade is "
            "off: spec.autoUpgrade"
        ),
    )


def kind_without_upgrades() -> Any:
    options = replace(KaitoOptions(), auto_upgrade=False)
    return Given(settings=options).kind


def with_status(found: InferenceSet, upgrade: dict[str, Any]) -> InferenceSet:
    return msgspec.convert(
        msgspec.to_builtins(found) | {"status": {"autoUpgrade": upgrade}}, InferenceSet
    )
