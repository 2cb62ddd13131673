"""Plans and status of InferenceSets: which Workspaces are created and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
import pytest

from controller.kaito.api.inferenceset import INFERENCE_SETS, MAX_REPLICAS
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.observe import SCOPE, Replica, replica_names
from controller.kaito.inferenceset.plan import SetDecision, next_changes
from controller.kaito.workloads.pods import base_image
from controller.kube.objects import ObjectMeta
from controller.runtime.kind import CreateError, Unreadable
from controller.runtime.plan import Create, Delete, Failure, MergePatch
from tests.kaito.inferenceset.given import (
    NOW,
    OWNER,
    SUCCEEDED,
    Given,
    names,
    replica_of,
    with_metadata,
    writes,
)
from tests.kaito.support import inference, inference_set, workspace

FINALIZER = "inferenceset.finalizer.kaito.sh"
RESOURCE = {"instanceType": "Standard_NC24ads_A100_v4"}


def of(replicas: int, **more: Any) -> Given:
    return Given(inference_set(replicas=replicas), **more)


def test_workspaces_of_kaito_are_taken_over_without_a_write():
    given = of(2)
    given.with_replicas(*(replica_of(f"models-{each}") for each in ("abcde", "x2x2x")))
    assert writes(given.plan()) == []


def test_more_replicas_than_any_cluster_has_room_for_are_refused_and_what_serves_stays():
    given = of(MAX_REPLICAS)
    assert len(names(given.plan(), Create)) == 64
    given = of(2**31 - 1)
    given.with_replicas(replica_of(given.names[0], ready=True))
    assert writes(given.plan()) == []
    assert given.condition() == (
        "False",
        "InvalidInferenceSetSpec",
        "invalid value: 2147483647: spec.replicas\nmust be at most 10000",
    )
    (event,) = given.plan().events or given.plan().status.events  # type: ignore[union-attr]
    assert (event.type, event.reason) == ("Warning", "InvalidInferenceSetSpec")


def test_a_workspace_of_another_owner_is_named_and_never_taken():
    given = of(2)
    given.with_replicas(workspace(name=given.names[0]))
    plan = given.plan()
    assert names(plan, Create) == [given.names[1]]
    assert plan.requeue_after == 60
    status, reason, message = given.condition()
    assert (status, reason) == ("False", "inferencesetFailed")
    assert f"cannot create Workspace {given.names[0]}: there is one of this name" in message
    assert "belongs to no controller; delete it" in message
    assert [each.reason for each in plan.status.events] == [  # type: ignore[union-attr]
        "InferenceSetFailed"
    ]


def test_while_the_outcome_of_a_write_is_unknown_nothing_is_created_or_deleted():
    given = of(1)
    given.with_replicas(*(replica_of(name) for name in given.names[:3]))
    given.reads.pending = frozenset({SCOPE})
    assert writes(given.plan()) == []
    given = of(1)
    given.reads.pending = frozenset({SCOPE})
    assert writes(given.plan()) == []


def test_while_a_workspace_cannot_be_read_nothing_is_created_or_deleted():
    given = of(2)
    metadata = {"name": "odd", "namespace": "default", "ownerReferences": [OWNER]}
    odd = Unreadable(msgspec.convert(metadata, ObjectMeta), "metadata.labels: no map")
    given.reads.odd = {WORKSPACES: {"odd": odd}}
    plan = given.plan()
    assert (writes(plan), plan.requeue_after) == ([], 60)
    assert "while Workspace odd cannot be read: metadata.labels: no map" in given.condition()[2]


def test_an_unreadable_workspace_of_another_owner_holds_nothing_but_its_name():
    given = of(2)
    odd = Unreadable(
        ObjectMeta(name=given.names[1], namespace="default"), "metadata.labels: no map"
    )
    given.reads.odd = {WORKSPACES: {given.names[1]: odd}}
    assert names(given.plan(), Create) == [given.names[0]]


def test_a_cause_that_is_longer_than_a_message_is_reported_by_one_event_only():
    given = of(1)
    key = f"Workspace/default/{given.names[0]}"
    given.reads.refused = {key: CreateError("Forbidden", "no " * 3000)}
    assert len(given.plan().status.events) == 1  # type: ignore[union-attr]
    given.reads.add(INFERENCE_SETS, msgspec.structs.replace(given.set, status=given.status))
    assert given.plan().status.events == ()  # type: ignore[union-attr]


def test_what_the_server_refuses_is_told_as_long_as_it_does():
    given = of(1)
    key = f"Workspace/default/{given.names[0]}"
    given.reads.refused = {key: CreateError("Forbidden", "exceeded quota")}
    _, reason, message = given.condition()
    assert reason == "inferencesetFailed"
    assert message.startswith("inferenceset is not ready, 0/1 replicas are ready; cannot create")
    assert f"Workspace {given.names[0]}: exceeded quota; change the object accord" in message
    plan = given.plan()
    (create,) = writes(plan)
    failure = Failure(create, "Forbidden", "exceeded quota")
    status = given.kind.status_after(given.observe(), plan, (failure,), NOW)
    assert status is not None
    assert message in [each["message"] for each in status.wanted["conditions"]]


@pytest.mark.parametrize(("unknown", "is_told"), [(False, True), (True, False)])
def test_a_failed_write_is_told_and_one_that_may_resolve_is_not(*, unknown: bool, is_told: bool):
    given = of(1)
    plan = given.plan()
    (create,) = writes(plan)
    failure = Failure(create, "Forbidden", "no right", unknown=unknown)
    status = given.kind.status_after(given.observe(), plan, (failure,), NOW)
    assert status is not None
    messages = [each["message"] for each in status.wanted["conditions"]]
    assert any("no right" in each for each in messages) is is_told


def test_without_workspaces_in_the_api_the_set_says_so():
    given = of(2)
    given.reads.served.discard(WORKSPACES)
    assert writes(given.plan()) == []
    assert "the API server has no Workspaces: install their definition" in given.condition()[2]


def said(type_: str, message: str, status: str = "False") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": "x", "message": message}


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ([said("ResourceReady", "inference.preset is none")], "inference.preset is none"),
        ([said("InferenceReady", "no pod"), said("ResourceReady", "no node")], "no node"),
        ([said("InferenceReady", "no pod"), said("ResourceReady", "all there", "True")], "no pod"),
    ],
)
def test_what_holds_up_a_replica_is_told_of_the_set(conditions: list[Any], told: str):
    given = Given()
    first, second = (
        replica_of(name, status={"conditions": found})
        for name, found in zip(sorted(given.names[:2]), ([SUCCEEDED], conditions), strict=True)
    )
    status, reason, message = given.with_replicas(first, second).condition()
    assert (status, reason) == ("False", "inferencesetNotReady")
    assert message == (
        f"inferenceset is not ready, 1/2 replicas are ready; Workspace {second.metadata.name}: "
        f"{told}"
    )
    status_patch = given.plan().status
    assert status_patch is not None
    assert status_patch.events == (), "the Workspace has told it already"


def test_what_serves_an_old_image_goes_first():
    given = of(1)
    new, old = (replica_of(name, ready=True) for name in sorted(given.names[:2]))
    given.with_replicas(old, new).with_server(old, "example.com/kaito-base:0.1.0")
    given.with_server(new, base_image(KaitoOptions()))
    assert names(given.plan(), Delete) == [old.metadata.name]


def test_labels_that_come_later_reach_the_replicas_that_stay():
    template = {"metadata": {"labels": {"team": "a"}}, "resource": RESOURCE}
    given = Given(inference_set(replicas=1, template={**template, "inference": inference()}))
    leaving = replica_of("models-zzzzz", terminating=True)
    given.with_replicas(replica_of(given.names[0]), replica_of("models-aaaaa", ready=True), leaving)
    plan = given.plan()
    assert names(plan, Delete) == [given.names[0]]
    assert names(plan, MergePatch) == ["models-aaaaa"]


def test_an_edit_of_the_template_changes_no_replica():
    template = {"resource": RESOURCE, "inference": inference("mistral-7b")}
    given = Given(inference_set(replicas=2, template=template))
    given.with_replicas(*(replica_of(name) for name in given.names[:2]))
    assert writes(given.plan()) == []


def test_an_invalid_set_leaves_its_workspaces_alone():
    given = of(-1)
    given.with_replicas(replica_of(given.names[0], ready=True), replica_of(given.names[1]))
    assert (writes(given.plan()), given.plan().commit) == ([], None)
    assert given.kind.problem(given.observe()) is not None
    assert given.status["readyReplicas"] == 1, "what they say is still counted"
    assert "readyReplicas" not in of(-1).status, "nothing had begun"


def deleted(**metadata: Any) -> Given:
    changes = {"deletion_timestamp": "2026-01-01T00:00:00Z", **metadata}
    given = Given(with_metadata(inference_set(), **changes))
    return given.with_replicas(replica_of(given.names[0]))


def test_kaitos_finalizer_goes_and_the_garbage_collector_does_the_rest():
    plan = deleted(finalizers=("orphan", FINALIZER)).plan()
    assert (writes(plan), plan.status) == ([], None)
    assert plan.commit is not None
    assert plan.commit.patch == {"metadata": {"finalizers": ["orphan"]}}  # type: ignore[union-attr]


def test_a_set_that_waits_for_its_end_says_so_and_creates_nothing():
    given = deleted(finalizers=("foregroundDeletion",))
    plan = given.plan()
    assert (writes(plan), plan.commit) == ([], None)
    assert given.condition("InferenceSetDeleting") == (
        "True",
        "inferencesetDeleted",
        "inferenceset is being deleted",
    )


def measured(name: str, value: str) -> Any:
    metrics = {"peakTokensPerMinute": {"value": value}}
    found = replica_of(name, ready=True)
    return msgspec.structs.replace(
        found, status={**found.status, "performance": {"metrics": metrics}}
    )


def test_measurements_of_all_replicas_are_added_up_and_those_of_others_stay():
    given = of(2)
    given.with_replicas(*(measured(name, "100") for name in given.names[:2]))
    metric = given.status["performance"]["metrics"]["aggregatedPeakTokensPerMinute"]
    assert metric["value"] == "200.00"
    assert given.condition("BenchmarkCompleted")[0] == "True"


def test_autoscalers_find_number_and_pods():
    status = of(3).status
    assert (status["replicas"], status["readyReplicas"]) == (3, 0)
    assert status["selector"] == "inferenceset.kaito.sh/created-by=models"


META = ObjectMeta(name="models", namespace="default", uid="s-1")


def decide(desired: int, present: Sequence[Replica], batch: int = 64) -> SetDecision:
    """The decision when all names are free that no replica has."""
    names = {each.name for each in present}
    free = [name for name in islice(replica_names(META), desired) if name not in names]
    return next_changes(desired, present, free, batch)


def replicas(*given: str) -> list[Replica]:
    """Replicas in words: `old ready`, `new`, `old terminating`."""
    return [
        Replica(
            f"{words.split()[0]}-{number}",
            ready="ready" in words,
            terminating="terminating" in words,
            on_old_image="old" in words,
        )
        for number, words in enumerate(given)
    ]


@pytest.mark.parametrize(
    ("given", "desired", "deleted"),
    [
        (["old ready", "old ready", "old ready", "new"], 3, []),
        (["old ready", "old ready", "old ready", "new ready"], 3, ["old-0"]),
        (["old ready", "old ready", "new ready", "new ready"], 2, ["old-0", "old-1"]),
        (["old ready", "new ready", "new ready", "new ready"], 1, ["old-0", "new-1", "new-2"]),
        (["old terminating", "old ready", "old ready"], 2, []),
        (["old", "new ready", "new ready"], 2, ["old-0"]),
        (["old ready", "new ready"], 0, ["old-0", "new-1"]),
    ],
    ids=[
        "waits for the newcomer",
        "retires an old one when the newcomer serves",
        "prefers old ones",
        "deletes new ones if there are not old ones enough",
        "counts what is being deleted",
        "deletes what does not serve first",
        "scales to zero",
    ],
)
def test_what_is_deleted_is_what_kaito_deletes(given: list[str], desired: int, deleted: list[str]):
    decision = decide(desired, replicas(*given))
    assert [each.name for each in decision.delete] == deleted
    assert decision.create == ()


def test_names_are_those_of_the_set_and_never_the_same_twice():
    names = list(islice(replica_names(META), 2000))
    assert len(set(names)) == 2000
    assert all(name.startswith("models-") and len(name) == len("models-") + 5 for name in names)
    other = ObjectMeta(name="models", namespace="default", uid="s-2")
    assert not set(islice(replica_names(other), 100)) & set(names[:100])
