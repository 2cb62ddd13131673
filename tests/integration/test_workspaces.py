"""Workspaces on an API server: from a manifest to nodes and servers, and back."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controller.command.kinds import KindSettings, kinds_of
from controller.kaito.api import labels
from controller.kaito.api.definitions import inference_set_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace.watches import DEPLOYMENTS
from controller.kube.errors import NotFound
from controller.kube.objects import StatefulSet
from controller.kube.resources import PODS
from controller.ray.api import FeatureGates
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import install_crds
from tests.integration.inferencesets import set_manifest
from tests.integration.test_rights import RULES, Rights
from tests.integration.workspaces import Workspaces

embedded_only = pytest.mark.embedded_only


async def test_a_workspace_gets_its_nodes(spaces: Workspaces):
    spaces.start_operator()
    created = await spaces.create()
    await spaces.has_nodes()
    (claim,) = await spaces.claims()
    assert (claim.metadata.labels or {})["manta.dev/owner-uid"] == created.metadata.uid
    workspace = await spaces.workspace()
    assert workspace.metadata.finalizers == (labels.WORKSPACE_FINALIZER,)
    assert workspace.status["targetNodeCount"] == 1
    assert workspace.status["workerNodes"] == [claim.status.node_name]
    assert workspace.status["state"] == "Pending"
    assert (await spaces.condition("NodeClaimReady"))[:2] == ("True", "NodeClaimsReady")
    assert (await spaces.condition("NodesReady"))[:2] == ("True", "NodesReady")
    await spaces.world.settle(5)
    events = [reason for reason, _ in await spaces.world.events_about("Workspace", "phi")]
    assert events == ["NodeClaimCreated", "CreatedStatefulSet"]


async def test_a_deleted_workspace_stays_until_its_claims_are_gone(spaces: Workspaces):
    spaces.start_operator()
    await spaces.create(count=2)
    await spaces.has_nodes()
    await spaces.delete()
    await spaces.reaches("WorkspaceDeleting", "True", "workspaceDeleted")
    await spaces.world.eventually(spaces.is_gone)
    assert await spaces.claims() == []


@embedded_only
async def test_with_own_nodes_events_of_nodes_wake_a_workspace_and_nothing_polls(
    spaces: Workspaces,
):
    settings = KaitoOptions(provisioner=Provisioner.OWN_NODES)
    operator = spaces.start_operator(settings)
    await spaces.create(resource={"labelSelector": {"matchLabels": {"apps": "phi"}}})
    await spaces.reaches("ResourceReady", "False", "NodeNotReady")
    await spaces.world.settle(10)
    begun = len(operator.transport.journal.entries)
    await spaces.world.settle(1800)
    asked = [each.attributes for each in operator.transport.journal.entries[begun:]]
    assert [each for each in asked if each.resource and each.verb != "watch"] == []
    await spaces.world.user.create(NODES, "", own_node())
    await spaces.world.settle(1)
    assert (await spaces.server()).metadata.name == "phi"
    assert (await spaces.condition("ResourceReady"))[0] == "True"
    await spaces.world.user.merge_patch(NODES, "", "mine", {"metadata": {"labels": {"apps": "x"}}})
    await spaces.world.settle(1)
    assert (await spaces.condition("NodesReady"))[:2] == ("False", "NodeNotReady")


def own_node() -> dict[str, Any]:
    gpus = {"product": "NVIDIA-A100-SXM4-80GB", "count": "1", "memory": "81920"}
    own_labels = {"apps": "phi", **{f"nvidia.com/gpu.{key}": gpus[key] for key in gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "mine", "labels": own_labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


async def test_the_deployment_of_an_older_kaito_is_replaced_by_a_server(spaces: Workspaces):
    meta = (await spaces.create()).metadata
    await spaces.world.user.create(DEPLOYMENTS, spaces.world.namespace, old_deployment(meta.uid))
    spaces.start_operator()
    await spaces.world.eventually(lambda: has_server(spaces))
    with pytest.raises(NotFound):
        await spaces.world.user.get(DEPLOYMENTS, spaces.world.namespace, "phi")
    await spaces.world.settle(5)
    events = [reason for reason, _ in await spaces.world.events_about("Workspace", "phi")]
    assert events[-2:] == ["WorkloadMigration", "CreatedStatefulSet"]


async def has_server(spaces: Workspaces) -> bool:
    try:
        return bool(await spaces.server())
    except NotFound:
        return False


def old_deployment(owner: str) -> dict[str, Any]:
    """What Kaito made until 0.7; without labels of its own."""
    own_labels = {labels.WORKSPACE: "phi"}
    reference = {"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "name": "phi", "uid": owner}
    container = {"name": "phi", "image": "example.com/server:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "phi", "ownerReferences": [{**reference, "controller": True}]},
        "spec": {
            "selector": {"matchLabels": own_labels},
            "template": {"metadata": {"labels": own_labels}, "spec": {"containers": [container]}},
        },
    }


@embedded_only
async def test_the_charts_rights_are_enough(spaces: Workspaces):
    rules = yaml.safe_load((RULES.parent / "workspace-rules.yaml").read_text())
    rights = Rights(*rules["namespaced"], *rules["cluster"])
    assert spaces.world.server is not None
    spaces.world.server.audit.authorizer = rights.allows
    spaces.start_operator()
    await spaces.create()
    await spaces.has_nodes()
    await spaces.world.settle(5)
    await spaces.delete()
    await spaces.world.eventually(spaces.is_gone)
    assert rights.refused == []


@embedded_only
async def test_ray_and_workspaces_are_served_by_one_process(spaces: Workspaces):
    gates = FeatureGates.parse("Workspace=true")
    kinds = kinds_of(KindSettings.from_environment(gates, {}), None)
    spaces.world.start_operator(kinds=kinds)
    await spaces.create()
    await spaces.world.create_cluster()
    await spaces.has_nodes()
    await spaces.world.eventually(spaces.world.is_ready)


@embedded_only
async def test_an_unknown_field_of_a_template_is_named_at_the_workspace_and_at_its_set(
    spaces: Workspaces,
):
    world = spaces.world
    await install_crds(world, inference_set_definition())
    gates = FeatureGates.parse("Workspace=true")
    world.start_operator(kinds=kinds_of(KindSettings.from_environment(gates, {}), None))
    spec = {"nodeSelektor": {"a": "b"}, "containers": [{"name": "s", "image": "example.com/s:1"}]}
    template = {"inference": {"template": {"spec": spec}}}
    await spaces.create(**template)
    body = set_manifest("phi-set")
    body["spec"]["template"] |= template
    await world.user.create(INFERENCE_SETS, world.namespace, body)
    await spaces.reaches("FieldsKnown", "False", "UnknownFields")
    named = "inference.template.spec.nodeSelektor (did you mean nodeSelector?)"
    assert named in (await spaces.condition("FieldsKnown"))[2]

    async def told() -> str:
        found = await world.user.get(INFERENCE_SETS, world.namespace, "phi-set")
        conditions = found.status.get("conditions", ())
        return next((each["message"] for each in conditions if each["type"] == "FieldsKnown"), "")

    assert f"spec.template.{named}" in await world.eventually(told)
    await world.settle(5)
    for kind, name in (("Workspace", "phi"), ("InferenceSet", "phi-set")):
        events = await world.events_about(kind, name)
        assert [reason for reason, _ in events].count("UnknownFields") == 1


PENDING = "WorkspaceInferenceStatusPending"


def pod_of(server: StatefulSet, *gates: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
    owner |= {"name": server.metadata.name, "uid": server.metadata.uid}
    labelled = {labels.WORKSPACE: server.metadata.name}
    return {
        "metadata": {"name": "phi-0", "labels": labelled, "ownerReferences": [owner]},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "phi", "image": "example.com/server:1"}],
        },
    }


async def kubelet_says(spaces: Workspaces, **state: Any) -> None:
    container = {"name": "phi", "ready": False, "image": "x", "imageID": "x", **state}
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    client, namespace = spaces.world.user, spaces.world.namespace
    await client.merge_patch(PODS, namespace, "phi-0", status, subresource="status")


@pytest.mark.embedded_only
async def test_a_failing_pod_is_the_cause_and_its_crashes_are_not_written_one_by_one(
    spaces: Workspaces,
):
    operator = spaces.start_operator()
    await spaces.create()
    await spaces.reaches("InferenceReady", "False", PENDING)
    await spaces.has_nodes()
    await spaces.world.settle(5)
    client, namespace = spaces.world.user, spaces.world.namespace
    await client.create(PODS, namespace, pod_of(await spaces.server(), "example.com/by-hand"))
    end = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    await kubelet_says(spaces, restartCount=1, state=waits, lastState={"terminated": end})
    await spaces.reaches("InferenceReady", "False", "ContainerCrashLoopBackOff")
    await spaces.world.settle(5)
    begun = len(operator.transport.journal.entries)
    for crash in range(2, 12):
        running = {"running": {"startedAt": f"2026-01-01T00:{crash:02}:00Z"}}
        end["finishedAt"] = f"2026-01-01T00:{crash:02}:30Z"
        for state in (running, {"terminated": end}, waits):
            last = {"lastState": {"terminated": end}}
            await kubelet_says(spaces, restartCount=crash, state=state, **last)
            await spaces.world.settle(2)
    sent = [each.attributes.verb for each in operator.transport.journal.entries[begun:]]
    assert [verb for verb in sent if verb not in {"get", "list", "watch"}] == []

    await client.delete(PODS, namespace, "phi-0")
    await spaces.reaches("InferenceReady", "False", PENDING)


@embedded_only
async def test_a_refused_claim_is_tried_again_with_back_off(spaces: Workspaces):
    refusal = ErrorResponse(403, "Forbidden", "exceeded quota {n}")
    rule = Rule(refusal, str(NODE_CLAIMS), frozenset({"create"}), times=5)
    operator = spaces.start_operator(rules=[rule])
    await spaces.create()
    await spaces.reaches("NodeClaimReady", "False", "Forbidden")
    assert "exceeded quota" in (await spaces.condition("NodeClaimReady"))[2]
    await spaces.has_nodes()
    await spaces.world.settle(5)
    events = [reason for reason, _ in await spaces.world.events_about("Workspace", "phi")]
    assert events.count("NodeClaimCreationFailed") == 1
    patches = [each for each in operator.transport.journal.writes if is_commit(each)]
    assert len(patches) < 6  # not one for each attempt


def is_commit(entry: object) -> bool:
    about = entry.attributes  # type: ignore[attr-defined]
    return about.resource == str(WORKSPACES) and about.subresource != "status"


@pytest.mark.parametrize("label", [labels.WORKSPACE, labels.WORKSPACE_NAMESPACE])
@embedded_only
async def test_a_claim_that_lost_a_label_is_kept_and_counts(spaces: Workspaces, label: str):
    operator = spaces.start_operator()
    await spaces.create()
    await spaces.has_nodes()
    [claim] = await spaces.claims()
    begun = len(operator.transport.journal.entries)
    patch = {"metadata": {"labels": {label: None}}}
    await spaces.world.user.merge_patch(NODE_CLAIMS, "", claim.metadata.name, patch)
    await spaces.world.settle(600)
    assert (await spaces.condition("ResourceReady"))[0] == "True"
    assert spaces.referee.created == {"phi": 1}
    assert not spaces.referee.deleted
    requests = [each.attributes.verb for each in operator.transport.journal.entries[begun:]]
    assert sum(verb not in {"list", "watch"} for verb in requests) <= 30

    await spaces.delete()
    await spaces.world.eventually(spaces.is_gone)
    assert (await spaces.world.user.list(NODE_CLAIMS, "")).items == []
