"""The plans of Workspaces, from plain observations."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from controller.kaito.api import labels
from controller.kaito.api.fields import INVALID
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES, NodeClaim
from controller.kaito.api.options import ClaimSettings, KaitoOptions, Provisioner
from controller.kaito.presets.gpus import Cloud
from controller.kaito.provisioning.claims import (
    MOST_NODES,
    Commitment,
    Slot,
    read_commitment,
    write_commitment,
)
from controller.kaito.workspace.watches import DEPLOYMENTS, PODS
from controller.kube.objects import KubeObject, ObjectMeta, Service
from controller.kube.resources import SERVICES, STATEFUL_SETS
from controller.runtime.kind import ObjectUnreadable, Unreadable
from controller.runtime.plan import Delete
from tests.kaito.support import inference, tuning, workspace
from tests.kaito.workspace.given import (
    INSTANCE,
    NOW,
    OWNER,
    Given,
    claim,
    job,
    kinds,
    node,
    own,
    server,
    verb,
    writes,
)
from tests.kaito.workspace.pods import ended, pod

OWN_NODES = KaitoOptions(provisioner=Provisioner.OWN_NODES)
TUNING: dict[str, Any] = {"tuning": tuning()}
TEMPLATE: dict[str, Any] = {
    "template": {"spec": {"containers": [{"name": "server", "image": "example.com/server"}]}}
}
CONFIG = "inference_config.yaml"
LLAMA = "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"


def committed(given: Given) -> dict[str, Any]:
    commit = given.plan().commit
    assert commit is not None
    return dict(commit.patch["metadata"])  # type: ignore[union-attr]


# nodes


def test_annotations_for_streamed_weights_are_named_as_without_effect():
    asked = {"inference.kaito.sh/stream-threads": "4", labels.MODEL_STREAMING: "enabled"}
    given = Given(workspace(annotations=asked))
    status, _, message = given.condition("FeaturesSupported")
    assert status == "False"
    assert message.endswith(
        "without effect in this version: "
        "metadata.annotations[inference.kaito.sh/stream-threads], "
        "metadata.annotations[kaito.sh/model-streaming]"
    )
    for quiet in ({**asked, labels.MODEL_STREAMING: "disabled"}, {}):
        assert Given(workspace(annotations=quiet)).condition("FeaturesSupported") == ("", "", "")


def test_claims_of_kaito_are_adopted():
    given = Given(workspace(status={"targetNodeCount": 1})).with_nodes()
    assert given.creates(given.plan(), "NodeClaim") == []
    commitment = read_commitment(committed(given)["annotations"][labels.NODE_CLAIMS])
    assert commitment is not None
    assert [slot.name for slot in commitment.slots] == ["wsaaaaaaaaa"]


@pytest.mark.parametrize("count", [MOST_NODES + 1, 2**31])
def test_more_nodes_than_any_workspace_gets_are_refused_at_once(count: int):
    given = Given(workspace(inference=TEMPLATE, resource={"count": count}))
    assert given.creates(given.plan(), "NodeClaim") == []
    _, reason, message = given.condition("ResourceReady")
    assert reason == "TooManyNodes"
    assert message.startswith(f"{count} nodes are requested, and a workspace gets at most 256")


# nodes of one's own


def own_workspace(**changes: Any) -> Any:
    return workspace(resource={"instanceType": None}, **changes)


def gpu_labels() -> dict[str, str]:
    product = {"product": "NVIDIA-A100-SXM4-80GB", "count": "1", "memory": "81920"}
    return {f"nvidia.com/gpu.{key}": value for key, value in product.items()}


def test_with_own_nodes_no_claim_is_made_and_nothing_polls():
    given = Given(own_workspace(), OWN_NODES)
    plan = given.plan()
    assert kinds(plan) == [["create ControllerRevision"]]
    assert plan.requeue_after is None
    status, _, message = given.condition("ResourceReady")
    assert (status, message) == (
        "False",
        "no ready nodes found matching the workspace's label selector: apps=phi",
    )
    assert given.condition("NodeClaimReady") == ("", "", "")


def test_with_own_nodes_the_workload_is_created_once_they_are_ready():
    given = Given(own_workspace(), OWN_NODES).with_revision()
    given.reads.add(NODES, node(**gpu_labels()))
    assert kinds(given.plan())[:2] == [["create Service", "create Service"], ["create StatefulSet"]]
    assert given.condition("ResourceReady")[0] == "True"


def test_with_own_nodes_that_are_not_alike_nothing_is_created_until_they_are():
    given = Given(own_workspace(), OWN_NODES).with_revision()
    given.reads.add(NODES, node("n1", **gpu_labels()))
    given.reads.add(NODES, node("n2", **gpu_labels() | {"nvidia.com/gpu.count": "2"}))
    assert given.creates(given.plan(), "StatefulSet") == []
    message = given.condition("ResourceReady")[2]
    assert message.startswith("Non-uniform GPU count: node n2 has 2 GPUs")
    given.reads.add(NODES, node("n2", **gpu_labels()))
    assert len(given.creates(given.plan(), "StatefulSet")) == 1


def test_own_nodes_of_which_a_number_is_stored_are_not_judged_again():
    stored = workspace(resource={"instanceType": None}, status={"targetNodeCount": 1})
    given = Given(stored, OWN_NODES).with_revision()
    given.reads.add(NODES, node("n1", **gpu_labels()))
    given.reads.add(NODES, node("n2", **gpu_labels() | {"nvidia.com/gpu.count": "2"}))
    assert len(given.creates(given.plan(), "StatefulSet")) == 1


# the memory of nodes that serve with Transformers


ONE_NODE = (
    "Multi-node distributed inference is not supported with Huggingface Transformers runtime, and "
    "preset llama-3.3-70b-instruct requires at least 131.42Gi of GPU memory on one node, which has "
    "80Gi: instanceType"
)
TOO_LITTLE = (
    f"invalid value: Insufficient total GPU memory: Instance type {INSTANCE} has a total of 80Gi, "
    "but preset llama-3.3-70b-instruct requires at least 131.42Gi: instanceType"
)


@pytest.mark.parametrize(
    ("preset", "count", "annotations", "words"),
    [
        ("phi-4", 1, {}, ""),
        ("llama-3.3-70b-instruct", 1, {}, f"{ONE_NODE}\n{TOO_LITTLE}"),
        ("llama-3.3-70b-instruct", 2, {}, ONE_NODE),
        ("llama-3.3-70b-instruct", 1, {labels.BYPASS_RESOURCE_CHECKS: ""}, ONE_NODE),
    ],
)
def test_no_node_is_claimed_for_weights_that_do_not_fit_into_it(
    preset: str, count: int, annotations: dict[str, str], words: str
):
    served = {"name": preset, "presetOptions": {"modelAccessSecret": "token"}}
    given = Given(
        workspace(
            resource={"count": count},
            inference={"preset": served},
            annotations={labels.RUNTIME: "transformers", **annotations},
        )
    ).with_revision()
    _, reason, message = given.condition("ResourceReady")
    assert (labels.NODE_CLAIMS in str(given.plan().commit)) is not bool(words)
    assert (reason == "ModelDoesNotFit") is bool(words)
    assert not words or message.startswith(words)
    assert message.count("\n") == words.count("\n")


# the model server


def test_a_server_of_kaito_is_taken_over_without_a_write():
    given = Given(workspace(status={"targetNodeCount": 1}))
    given.with_nodes().with_revision(1).with_services().with_server(server())
    assert writes(given.plan()) == []
    assert given.state == "Ready"
    assert given.condition("InferenceReady")[:2] == ("True", "WorkspaceInferenceStatusSuccess")
    assert given.condition("WorkspaceSucceeded")[:2] == ("True", "workspaceSucceeded")


def test_a_server_without_a_service_is_not_ready_and_the_service_is_named():
    given = Given(workspace(status={"targetNodeCount": 1, "state": "Ready"}))
    given.with_nodes().with_revision(1).with_server(server())
    assert given.state == "NotReady"
    words = "Service phi does not exist yet"
    assert given.condition("InferenceReady") == ("False", "ServiceMissing", words)
    assert given.condition("WorkspaceSucceeded")[0] == "False"
    assert given.with_services().state == "Ready"


@pytest.mark.parametrize(
    ("before", "ready", "after"),
    [
        ("", 0, "Pending"),
        ("Pending", 0, "Pending"),
        ("Pending", 1, "Ready"),
        ("Ready", 0, "NotReady"),
        ("NotReady", 0, "NotReady"),
        ("NotReady", 1, "Ready"),
    ],
)
def test_once_it_was_ready_a_server_is_never_pending_again(before: str, ready: int, after: str):
    status = {"state": before, "targetNodeCount": 1}
    given = Given(workspace(status=status)).with_nodes().with_revision().with_services()
    given.with_server(server(ready))
    assert given.state == after


def test_a_name_that_is_taken_is_said():
    given = Given().with_nodes().with_revision()
    foreign = {"name": "phi", "namespace": "default", "uid": "x"}
    given.reads.add(STATEFUL_SETS, KubeObject(metadata=ObjectMeta(**foreign)))
    assert given.creates(given.plan(), "StatefulSet") == []
    assert given.plan().requeue_after == 30, "no event tells that the name is free again"
    status, reason, message = given.condition("InferenceReady")
    assert (status, reason) == ("False", "NameTaken")
    assert "belongs to no controller" in message


# the Deployments of Kaito before 0.8


def test_a_deployment_of_an_older_kaito_is_deleted_before_the_server_is_created():
    given = Given().with_nodes().with_revision().with_deployment()
    (delete,) = writes(given.plan())
    assert isinstance(delete, Delete)
    assert (delete.target.resource, delete.uid) == (DEPLOYMENTS, "uid-phi")
    assert delete.propagation == "Foreground"
    assert delete.on_success is not None
    assert delete.on_success.reason == "WorkloadMigration"
    given.with_deployment(deletionTimestamp="2026-01-01T00:00:00Z")
    assert writes(given.plan()) == []
    assert given.condition("InferenceReady")[:2] == ("False", "WorkloadMigration")
    given.reads.objects.pop((DEPLOYMENTS.plural, "default/phi"))
    assert len(given.creates(given.plan(), "StatefulSet")) == 1


@pytest.mark.parametrize("lacking", ["nodes", "options", "model"])
def test_a_deployment_stays_until_its_successor_can_be_created(lacking: str):
    changes = {
        "nodes": {},
        "options": {"inference": inference(config="options")},
        "model": {"inference": inference("somebody/some-model")},
    }[lacking]
    found = workspace(status={"targetNodeCount": 1}, **changes)
    given = Given(found).with_revision().with_deployment()
    if lacking != "nodes":
        given.with_nodes()
    assert [each for each in writes(given.plan()) if isinstance(each, Delete)] == []


def test_a_deployment_beside_the_server_goes_too_and_one_of_another_owner_stays():
    given = Given().with_nodes().with_revision().with_services().with_server(server())
    assert writes(given.plan()) == []
    given.with_deployment(ownerReferences=[])
    assert writes(given.plan()) == []
    given.with_deployment()
    (delete,) = writes(given.plan())
    assert (verb(delete), delete.target.resource) == ("delete", DEPLOYMENTS)


@pytest.mark.parametrize("name", ["phi", "phi-headless"])
def test_a_service_of_another_workspace_is_not_taken_for_its_own(name: str):
    given = Given().with_nodes().with_revision()
    other = [{**OWNER, "name": "phi-headless", "uid": "u-2", "controller": True}]
    given.reads.add(SERVICES, convert({"metadata": own(name, ownerReferences=other)}, Service))
    assert given.creates(given.plan(), "StatefulSet") == []
    status, reason, message = given.condition("InferenceReady")
    assert (status, reason) == ("False", "NameTaken")
    assert message.startswith(f"there is a Service {name} that belongs to Workspace phi-headless")
    (its_own,) = {"phi", "phi-headless"} - {name}
    given.reads.add(SERVICES, convert({"metadata": own(its_own)}, Service))
    given.with_server(server())
    assert given.condition("InferenceReady")[0] == "True"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "ConfigMapNotFound"),
        ({CONFIG: "["}, INVALID),
        ({CONFIG: "vllm: {max-model-len: '200000'}"}, INVALID),
    ],
)
@pytest.mark.parametrize("settings", [None, OWN_NODES], ids=["claims", "own nodes"])
def test_without_its_options_a_model_gets_no_node(
    data: dict[str, str], reason: str, settings: KaitoOptions | None
):
    found = {} if settings is None else {"resource": {"instanceType": None}}
    given = Given(workspace(inference=inference(LLAMA, config="options"), **found), settings)
    given.with_revision()
    given.reads.add(NODES, *([node(**gpu_labels())] if settings else []))
    if data:
        given.with_config("options", **data)
    plan = given.plan()
    assert labels.NODE_CLAIMS not in str(plan.commit)
    assert given.creates(plan, "NodeClaim") == given.creates(plan, "StatefulSet") == []
    assert given.condition("ResourceReady")[:2] == ("False", reason)
    given.with_config("options", **{CONFIG: "vllm: {max-model-len: '4096'}"})
    wanted = "NodeClaim" if settings is None else "StatefulSet"
    assert len(given.creates(given.plan(), wanted)) == 1


def test_options_that_go_once_there_are_nodes_are_waited_for():
    text = write_commitment(Commitment(target=1, template=f"{INSTANCE} apps=phi"))
    marks = {"annotations": {labels.NODE_CLAIMS: text}}
    given = Given(workspace(inference=inference(config="options"), **marks)).with_nodes()
    given.with_revision()
    assert given.creates(given.plan(), "StatefulSet") == []
    assert given.condition("InferenceReady")[:2] == ("False", "ConfigMapNotFound")
    given.with_config("options", **{CONFIG: "["})
    assert given.creates(given.plan(), "StatefulSet") == []
    assert given.condition("InferenceReady")[:2] == ("False", INVALID)


# tuning


def test_a_tuning_gets_its_default_options_and_then_its_job():
    given = Given(workspace(**TUNING)).with_nodes().with_revision()
    assert kinds(given.plan())[:2] == [["create ConfigMap"], ["create Job"]]
    assert given.condition("JobStarted")[:2] == ("False", "WorkspaceTuningJobStatusPending")
    assert given.state == "Pending"


def test_a_job_of_another_revision_is_deleted_and_created_when_it_is_gone():
    given = Given(workspace(**TUNING)).with_nodes().with_revision(2)
    given.with_job(job(active=1))
    assert kinds(given.plan()) == [["delete Job"]]
    given.with_job(job(**{labels.REVISION: "1"}))
    (delete,) = writes(given.plan())
    assert isinstance(delete, Delete)
    assert (delete.uid, delete.propagation) == ("uid-phi", "Foreground")


def test_a_job_that_is_terminating_is_waited_for():
    given = Given(workspace(**TUNING)).with_nodes().with_revision(2)
    given.with_job(changed(job(active=1), deletion_timestamp="2026-01-01T00:00:00Z"))
    assert writes(given.plan()) == []


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (job(), "Pending"),
        (job(active=1), "Running"),
        (job(active=1, failed=2), "Running"),
        (job(condition="Complete", failed=1), "Succeeded"),
        (job(condition="Failed", failed=7), "Failed"),
    ],
)
def test_the_state_of_a_tuning_is_that_of_its_job(found: Any, state: str):
    given = Given(workspace(**TUNING)).with_nodes().with_revision().with_job(found)
    assert given.state == state


def test_a_tuning_ends_with_its_own_containers_whatever_a_mesh_leaves_in_the_pod():
    proxy = {"name": "istio-proxy", "state": {"running": {}}}
    containers = [{"name": "phi"}, {"name": "pusher"}]
    found = job(active=1)
    spec = replace(found.spec, backoff_limit=1, template={"spec": {"containers": containers}})
    found = replace(found, spec=spec)

    def given(*codes: int | None, failed: int = 0) -> Given:
        present = replace(found, status=replace(found.status, failed=failed))
        ends = [
            {
                "name": name,
                "state": {"running": {}} if code is None else {"terminated": ended(code)},
            }
            for name, code in zip(("phi", "pusher"), codes, strict=True)
        ]
        given = Given(workspace(**TUNING)).with_nodes().with_revision().with_job(present)
        left = pod("phi-x", containerStatuses=[proxy, *ends])
        given.reads.add(PODS, replace(left, spec=replace(left.spec, restart_policy="Never")))
        return given

    assert given(0, None).state == "Running"
    assert given(0, 0).state == "Succeeded"
    (delete,) = writes(given(1, 0).plan())
    assert isinstance(delete, Delete)
    assert delete.uid == "uid-phi-x", "the job tries again"
    assert given(1, 0, failed=1).state == "Failed"


# the end


def changed(obj: Any, **metadata: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, **metadata))


def deleted(**changes: Any) -> Any:
    return changed(
        workspace(**changes),
        deletion_timestamp="2026-01-01T00:59:00Z",
        finalizers=(labels.WORKSPACE_FINALIZER,),
    )


def test_committed_claims_that_are_not_seen_are_looked_up_before_the_finalizer_is_removed():
    slots = [{"place": 0, "name": "wsbbbbbbbbb", "begunBy": "p"}]
    text = json.dumps({"target": 1, "slots": slots})
    given = Given(deleted(annotations={labels.NODE_CLAIMS: text}))
    (lookup,) = given.plan().lookups
    assert lookup.target.name == "wsbbbbbbbbb"  # type: ignore[union-attr]
    assert given.plan().commit is None
    given.reads.absent.add("wsbbbbbbbbb")
    assert given.plan().commit.patch == {"metadata": {"finalizers": []}}  # type: ignore[union-attr]


def test_a_committed_claim_that_cannot_be_read_holds_the_finalizer_without_a_look_up():
    slots = [{"place": 0, "name": "wsbbbbbbbbb", "begunBy": "p", "seen": True}]
    text = json.dumps({"target": 1, "slots": slots})
    given = Given(deleted(annotations={labels.NODE_CLAIMS: text}))
    odd = Unreadable(ObjectMeta(name="wsbbbbbbbbb", uid="x"), "status: not an object")
    given.reads.odd[NODE_CLAIMS] = {"wsbbbbbbbbb": odd}
    with pytest.raises(ObjectUnreadable, match="cannot be decoded: status: not an object"):
        given.plan()


def test_after_the_bound_the_finalizer_is_removed_and_an_event_says_what_is_left():
    given = Given(changed(deleted(), deletion_timestamp="2026-01-01T00:45:00Z")).with_nodes()
    commit = given.plan().commit
    assert commit is not None
    assert commit.on_success is not None
    assert commit.on_success.note == "left behind after 15 minutes: NodeClaim wsaaaaaaaaa"
    assert commit.on_success.reason == "NodeClaimsLeftBehind"


def test_a_jump_of_the_clock_back_puts_the_bound_off_no_further_than_from_the_jump():
    given = Given(changed(deleted(), deletion_timestamp="2026-01-01T06:00:00Z")).with_nodes()
    given.reads.clock_steady_since = NOW - timedelta(minutes=1)
    assert given.plan().requeue_after == 14 * 60.0
    given.reads.clock_steady_since = NOW - timedelta(minutes=15)
    assert given.plan().commit is not None


def test_a_cloud_without_a_class_of_nodes_says_so():
    found = workspace(resource={"instanceType": "Standard_NC4_A2"})
    given = Given(found, KaitoOptions(cloud=Cloud.ARC))
    assert writes(given.plan()) == []
    status, reason, message = given.condition("ResourceReady")
    assert (status, reason) == ("False", INVALID)
    assert "bring your own nodes" in message


def having_lost(
    failures: int, discarded: tuple[str, ...] = (), settings: KaitoOptions | None = None
) -> Given:
    """A Workspace of which so many claims were lost, one after the other."""
    slots = (Slot(place=0, name="wsbbbbbbbbb", failures=failures),)
    template = f"{INSTANCE} apps=phi"
    found = Commitment(target=1, template=template, slots=slots, discarded=discarded)
    return Given(workspace(annotations={labels.NODE_CLAIMS: write_commitment(found)}), settings)


def told_after(failures: int, *present: NodeClaim, discarded: tuple[str, ...] = ()) -> set[str]:
    """What events tell of claims once so many were lost, one after the other."""
    given = having_lost(failures, discarded)
    for each in present:
        given.reads.add(NODE_CLAIMS, each)
    plan = given.plan()
    assert plan.status is not None
    assert (plan.status.settles > 0) is bool(failures)
    of_claims = (each for each in writes(plan) if each.target.resource is NODE_CLAIMS)
    return {each.on_success.note for each in of_claims if each.on_success is not None}


def test_claims_that_are_lost_again_are_reported_in_equal_words_and_in_a_status_that_settles():
    assert told_after(0) == {f"created NodeClaim wsbbbbbbbbb for {INSTANCE}"}
    assert told_after(1) == {f"created another NodeClaim for {INSTANCE}"}
    going = ("wsaaaaaaaaa",)
    unwanted = "it is no longer wanted"
    assert told_after(0, claim(), discarded=going) == {f"deleted NodeClaim {going[0]}: {unwanted}"}
    assert told_after(1, claim(), discarded=going) == {f"deleted another NodeClaim: {unwanted}"}


@pytest.mark.parametrize("wait", [3, 30])
def test_a_status_about_lost_claims_settles_for_half_of_the_first_wait(wait: int):
    settings = KaitoOptions(claims=ClaimSettings(first_retry=timedelta(seconds=wait)))
    status = having_lost(1, settings=settings).plan().status
    assert status is not None
    assert status.settles == wait / 2
