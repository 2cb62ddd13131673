"""What the status says about clusters and applications: the first cause, in words."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import READY, find_condition
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayservice import ROLLBACK_IN_PROGRESS
from controller.ray.dashboard.commands import CommandRefused
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.serve import ProxyHealth, ServeApplication, ServeState
from controller.ray.diagnosis.writes import refused_creates
from controller.ray.service.clusters import stamp_reported
from controller.ray.service.facts import collect_facts
from controller.ray.service.observation import ACTIVE, PENDING, ServiceObservation
from controller.ray.service.plan import plan_service
from controller.ray.service.proxies import label_pods
from controller.ray.service.readiness import first_cause
from controller.ray.service.rollout import Change, SetActiveCapacity, SetPendingCapacity
from controller.ray.service.status import RECORDED_WITHIN, current_status, transition_patch
from controller.runtime.expectation import reference_of
from controller.runtime.kind import CreateError
from controller.runtime.plan import Create, Failure, MergePatch, Target
from controller.runtime.record import Owner, Record
from tests.integration.rayservices import condition
from tests.ray.service.kit import EMPTY, NOW, RUNNING, WELL, pod, reported, scene

HEAD = pod("head", serve="true")


def cause(seen: ServiceObservation) -> str:
    return first_cause(seen, ()).message


@pytest.mark.parametrize(("stale", "role"), [("head", "Head"), ("worker-1", "Worker")])
def test_a_refused_label_is_an_event_about_a_head_or_a_worker(stale: str, role: str):
    pods = [pod(each, serve=str(each != stale).lower()) for each in ("head", "worker-1")]
    (write,) = label_pods(scene(*pods, own_readiness=True))
    found = first_cause(scene(HEAD), (Failure(write, "Forbidden", "no"),))
    assert found.event == f"FailedToUpdate{role}PodServeLabel"
    assert found.message.startswith(f"Pod {stale}: cannot update pod {stale}: no")


def test_a_refused_cluster_is_named_in_the_same_words_as_long_as_it_lasts():
    error = CreateError("Forbidden", "exceeded quota: team")
    target = Target(RAYCLUSTERS, "default", "svc-b")
    record = Record(Owner("uid", "default/svc", "rayservice"))
    record.create_errors[reference_of(target)] = error
    kept = replace(scene(HEAD), refused_creates=refused_creates(record, [target], {}))
    failure = Failure(Create(target, {}), error.reason, error.message)
    said = first_cause(scene(HEAD), (failure,))
    assert said.message.endswith("ask for a larger quota or lower replicas")
    assert said == first_cause(kept, ())


def without_record(seen: ServiceObservation) -> ServiceObservation:
    """The same with a finalizer, but without the annotation by which the cluster is recognised."""
    assert seen.active is not None
    assert seen.active.cluster is not None
    cluster = seen.active.cluster
    metadata = msgspec.structs.replace(cluster.metadata, annotations=None)
    cluster = msgspec.structs.replace(cluster, metadata=metadata)
    finalizers = [labels.RAYSERVICE_FINALIZER]
    owner = msgspec.structs.replace(seen.service.metadata, finalizers=finalizers)
    service = msgspec.structs.replace(seen.service, metadata=owner)
    return replace(seen, service=service, active=replace(seen.active, cluster=cluster))


def test_a_cluster_that_lacks_its_record_is_named_in_a_status_that_waits_for_a_moment():
    plan = plan_service(without_record(scene(HEAD)))
    assert [type(write) for stage in plan.stages for write in stage] == [MergePatch]
    assert plan.status is not None
    assert plan.status.settles == RECORDED_WITHIN
    assert "observedGeneration" not in plan.status.wanted
    ready = find_condition(plan.status.wanted["conditions"], READY)
    assert ready is not None
    said = ready["message"]
    assert "RayCluster svc-a lacks the annotation manta.dev/made-from" in said
    assert "exempt RayClusters from that webhook" in said


def test_a_new_head_of_a_cluster_that_lacks_its_record_gets_requests():
    plan = plan_service(without_record(scene(pod("head", serve=""))))
    assert [write.target.name for write in plan.independent] == ["head"]


def test_a_head_that_does_not_start_is_explained_by_its_cluster():
    starting = pod("head", serve="false", ready=False)
    message = "pod svc-a-head cannot be scheduled: 0/3 nodes are available: Insufficient cpu"
    assert cause(scene(starting, cluster_message=message)) == f"cluster svc-a: {message}"


def test_a_dashboard_out_of_reach_is_named_with_its_address_and_what_to_look_at():
    silent = replace(RUNNING, failing_since=NOW, error="connection refused")
    assert cause(scene(HEAD, answer=silent)) == (
        "the dashboard of cluster svc-a (default/svc:8265) has not answered since "
        "2026-01-01T00:00:00Z: connection refused; look at the head's log, and whether a network "
        "policy is in the way"
    )


@pytest.mark.parametrize(("head_is_ready", "ready"), [(True, None), (False, 0)])
def test_a_silent_dashboard_says_nothing_of_capacity_as_long_as_the_kubelet_finds_the_head_ready(
    *, head_is_ready: bool, ready: int | None
):
    silent = replace(RUNNING, failing_since=NOW, error="connection refused")
    message = "" if head_is_ready else "pod svc-a-head is not ready"
    head = pod("head", serve="true", ready=head_is_ready)
    facts = collect_facts(scene(head, answer=silent, cluster_message=message))
    assert facts.active.ready is ready
    assert not facts.active.serves


def test_an_application_that_waits_is_explained_by_workers_that_do_not_start():
    message = "pod svc-a-worker: image not-there:1 cannot be pulled; correct its name"
    found = cause(scene(HEAD, answer=reported("DEPLOYING"), cluster_message=message))
    assert found == f"cluster svc-a: application hello is DEPLOYING; {message}"


def test_a_refused_config_has_rays_reason():
    refused = CommandRefused("applications.0.import_path: Field required")
    seen = scene(HEAD, answer=EMPTY, outcome=refused)
    found = first_cause(seen, ())
    assert found.message == (
        "Ray refuses the config of cluster svc-a: applications.0.import_path: Field required; "
        "correct spec.serveConfigV2"
    )
    assert found.event == "FailedToUpdateServeApplications"


@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        (replace(WELL, failing_since=NOW, error="connection refused"), "connection refused"),
        (ProbeObservation(ProxyHealth(healthy=False, message="drained"), NOW), "drained"),
    ],
)
def test_a_proxy_that_takes_no_requests_is_named(proxy: ProbeObservation, why: str):
    assert cause(scene(pod("head", serve="false"), proxy=proxy)) == (
        f"the Serve proxy on pod head takes no requests: {why}; look at its log in "
        "/tmp/ray/session_latest/logs/serve"
    )


def test_a_controller_of_serve_that_does_not_answer_is_named():
    silent = ProbeObservation(ServeState(has_controller=False), NOW)
    assert cause(scene(pod("head", serve="true"), answer=silent)) == (
        "Serve of cluster svc-a takes requests, but its controller does not answer the dashboard; "
        "look at the log of the head, and whether its processor is too busy"
    )


def test_a_cluster_without_a_pod_that_takes_requests_says_so():
    found = cause(scene(pod("head", serve="false")))
    assert found == "no pod of cluster svc-a is ready to take requests yet"


def test_a_config_that_cannot_be_read_says_what_to_do():
    seen = scene(HEAD)
    assert seen.active is not None
    unreadable = replace(seen.active, config=None, config_problem="The annotation x is broken")
    assert cause(replace(seen, active=unreadable)) == (
        "The annotation x is broken; remove it, and it is written anew from what Ray has"
    )


def test_a_config_of_another_operator_that_is_too_large_is_not_stored_and_the_status_says_so():
    seen = scene(HEAD, answer=reported("RUNNING", text=random.Random(1).randbytes(150_000).hex()))
    assert seen.active is not None
    taken_over = replace(seen.active, config=None)
    seen = replace(seen, active=taken_over)
    assert not list(stamp_reported(seen, taken_over))
    assert cause(seen).startswith("the config that Ray reports for cluster svc-a has 22")


def test_what_is_wanted_is_stored_once_serve_has_had_no_controller_for_a_minute():
    silent = ProbeObservation(ServeState(has_controller=False), NOW)
    seen = scene(pod("head", serve="false"), answer=silent)
    assert seen.active is not None
    taken_over = replace(seen.active, config=None)
    minute = timedelta(seconds=60)
    assert not list(stamp_reported(replace(seen, now=NOW + 0.9 * minute), taken_over))
    assert list(stamp_reported(replace(seen, now=NOW + minute), taken_over))
    assert list(stamp_reported(seen, replace(taken_over, answer=EMPTY)))


def status_of(seen: ServiceObservation) -> dict[str, Any]:
    return dict(current_status(seen).wanted)


def message(seen: ServiceObservation, kind: str) -> str:
    found = status_of(seen)["conditions"]
    return next(each["message"] for each in found if each["type"] == kind)


def test_applications_of_others_are_listed_as_unmanaged():
    answer = reported("RUNNING", other=ServeApplication("UNHEALTHY", "no replica"))
    active = status_of(scene(HEAD, answer=answer))[ACTIVE]
    applications = active["applicationStatuses"]
    assert applications["hello"]["message"] == ""
    assert applications["other"]["message"] == (
        "unmanaged: not in the config that is stored on the cluster; no replica"
    )


def test_what_ray_says_is_stored_without_secrets_and_never_at_length():
    answer = reported("UNHEALTHY", f"token=abcdef123456\n{'x ' * 4000}\nValueError: boom")
    active = status_of(scene(HEAD, answer=answer))[ACTIVE]
    told = active["applicationStatuses"]["hello"]["message"]
    assert "abcdef123456" not in told
    assert len(told) == 2048
    assert told.endswith("ValueError: boom")


def test_what_is_wrong_is_said_even_while_pods_serve():
    seen = replace(scene(HEAD, answer=reported("UNHEALTHY", "boom")), endpoints=(HEAD,))
    assert condition(status_of(seen), "Ready") == "True"
    assert message(seen, "Ready") == (
        "1 pod serves; cluster svc-a: application hello is UNHEALTHY: boom; correct the "
        "application, its image or spec.serveConfigV2"
    )


def upgrading(seen: ServiceObservation, *, weight: int | None = None) -> ServiceObservation:
    """The same with a pending cluster that fails to deploy."""
    other = scene(pod("head", serve="false"), answer=reported("DEPLOY_FAILED", "no module"))
    assert other.active is not None
    pending = replace(other.active, name="svc-b", role=PENDING)
    shares = {} if weight is None else {"targetCapacity": 40, "trafficRoutedPercent": weight}
    status = {ACTIVE: {"rayClusterName": "svc-a"}, PENDING: {"rayClusterName": "svc-b", **shares}}
    return replace(seen, status=status, pending=pending, endpoints=(HEAD,))


def test_an_upgrade_says_how_both_clusters_share_the_requests_and_what_it_waits_for():
    seen = upgrading(scene(HEAD))
    assert message(seen, "Ready") == "1 pod serves"
    assert message(seen, "UpgradeInProgress").startswith(
        "cluster svc-a gets all requests until cluster svc-b serves; cluster svc-b: application "
        "hello is DEPLOY_FAILED: no module"
    )
    stepwise = upgrading(scene(HEAD), weight=20)
    assert message(stepwise, "UpgradeInProgress").startswith(
        "cluster svc-a has 100 % of its capacity and gets 80 % of the requests; cluster svc-b "
        "has 40 % and gets 20 %; cluster svc-b: application hello is DEPLOY_FAILED"
    )


@pytest.mark.parametrize("words", ["no", "no " * 3000])
def test_a_warning_is_recorded_once(words: str):
    refused = scene(HEAD, answer=EMPTY, outcome=CommandRefused(words))
    first = current_status(refused)
    assert [each.reason for each in first.events] == ["FailedToUpdateServeApplications"]
    later = replace(refused, status={**refused.status, **first.wanted})
    assert not current_status(replace(later, now=NOW + timedelta(seconds=9))).events


@pytest.mark.parametrize(
    ("step", "rolling_back", "reason", "note"),
    [
        (Change.PREPARE, False, "PreparedRayCluster", "Cluster svc-c is to replace cluster svc-a"),
        (
            Change.REPLACE_PENDING,
            False,
            "PreparedRayCluster",
            "Cluster svc-c is to serve instead of cluster svc-b",
        ),
        (Change.PROMOTE, False, "PromotedRayCluster", "Cluster svc-b serves now"),
        (Change.DROP_PENDING, False, "DroppedRayCluster", "Gave up cluster svc-b"),
        (
            Change.BEGIN_ROLLBACK,
            False,
            "RollbackStarted",
            "Cluster svc-b hands everything back to cluster svc-a",
        ),
        (
            Change.DROP_PENDING,
            True,
            "RollbackCompleted",
            "Cluster svc-a has everything back from cluster svc-b",
        ),
        (Change.RESUME_UPGRADE, True, "UpgradeResumed", "The upgrade to cluster svc-b goes on"),
        (
            SetActiveCapacity(60),
            False,
            "UpdatedServeTargetCapacity",
            "Capacity of cluster svc-a: 60 %",
        ),
        (
            SetPendingCapacity(60),
            False,
            "UpdatedServeTargetCapacity",
            "Capacity of cluster svc-b: 60 %",
        ),
    ],
)
def test_every_step_of_a_rollout_has_an_event(
    step: Change | SetActiveCapacity, rolling_back: bool, reason: str, note: str
):
    seen = replace(upgrading(scene(HEAD)), next_name="svc-c")
    conditions = [{"type": ROLLBACK_IN_PROGRESS, "status": str(rolling_back)}]
    seen = replace(seen, status={**seen.status, "conditions": conditions})
    event = transition_patch(seen, collect_facts(seen), step).on_success
    assert event is not None
    assert (event.type, event.reason, event.note) == ("Normal", reason, note)


def test_a_rollback_to_a_cluster_that_is_gone_is_impossible():
    seen = upgrading(scene(HEAD))
    assert seen.active is not None
    seen = replace(seen, active=replace(seen.active, cluster=None, head=None))
    facts = collect_facts(seen)
    event = transition_patch(seen, facts, Change.RESUME_UPGRADE).on_success
    assert event is not None
    assert (event.type, event.reason) == ("Warning", "RollbackImpossible")
