"""Workspaces and InferenceSets in `manta status`, `manta why` and on the web page."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.command.status.objects import model_cause
from controller.command.status.reading import MODEL_CHILDREN
from controller.command.status.run import StatusOptions, print_status
from controller.command.status.why import WhyOptions, explain
from controller.kaito.api.definitions import inference_set_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kube.resources import CRDS, PODS
from controller.ray.api import FeatureGates
from devcluster.karpenter import ClaimBehaviour
from devcluster.nodes import ANNOTATION_PREFIX
from tests.integration.harness import World
from tests.integration.inferencesets import set_manifest
from tests.integration.test_page import page, text
from tests.integration.test_workspaces import pod_of
from tests.integration.workspaces import Workspaces, served

pytestmark = pytest.mark.embedded_only


async def shown(world: World, *target: str, status: int = 0, **more: Any) -> str:
    stream = io.StringIO()
    options = StatusOptions(target, **more)
    client = world.client("a-reader")
    assert await print_status(client, world.namespace, options, stream, world.wall) == status
    return stream.getvalue()


async def explained(world: World, *target: str) -> dict[str, Any]:
    stream = io.StringIO()
    options = WhyOptions(target, output="json")
    assert await explain(world.client("a-reader"), world.namespace, options, stream) == 0
    return json.loads(stream.getvalue())


async def add_pod(spaces: Workspaces, **annotations: str) -> None:
    """Do what the controller of StatefulSets does; the world's kubelet runs the pod."""
    body = pod_of(await spaces.server())
    given = {f"{ANNOTATION_PREFIX}{name}": value for name, value in annotations.items()}
    body["metadata"]["annotations"] = given
    await spaces.world.user.create(PODS, spaces.world.namespace, body)


async def test_a_workspace_is_a_tree_of_its_claim_its_server_and_its_pods(spaces: Workspaces):
    spaces.start_operator()
    with served(spaces.world):
        await spaces.create()
        await spaces.reaches("InferenceReady", "True", "WorkspaceInferenceStatusSuccess")
    await add_pod(spaces)
    await spaces.world.settle(10)
    (claim,) = await spaces.claims()
    printed = (await shown(spaces.world, "workspace/phi")).splitlines()
    lines = [each.rpartition(", ")[0] for each in printed]
    assert lines[:4] == [
        "workspace/phi: ready (1 of 1 nodes)",
        f"  nodeclaim/{claim.metadata.name}: ready (node {claim.status.node_name})",
        "  statefulset/phi: ready (1 of 1 pods ready)",
        "    pod/phi-0: ready on manta-node-0",
    ]
    table = (await shown(spaces.world)).splitlines()
    assert table[1].split()[:2] == ["workspace/phi", "ready"]
    told = json.loads(await shown(spaces.world, "workspaces", "phi", output="json"))
    assert "CreatedStatefulSet" in [each["reason"] for each in told["events"]]
    assert told["missing"] == []


async def test_the_first_cause_of_a_workspace_is_that_of_its_claim_and_then_of_its_pod(
    spaces: Workspaces,
):
    async def is_told(cause: str) -> bool:
        return cause in (await spaces.condition("InferenceReady"))[2]

    spaces.cloud.behaviour = ClaimBehaviour(node_after=30)
    spaces.start_operator()
    await spaces.create()
    await spaces.reaches("NodeClaimReady", "False", "NodeClaimNotReady")
    await spaces.world.settle(2)
    told = json.loads(await shown(spaces.world, "workspace/phi", output="json"))["object"]
    assert told["state"] == "starting"
    assert told["cause"] == (await spaces.condition("ResourceReady"))[2]
    await spaces.has_nodes()
    await spaces.world.settle(5)
    await add_pod(spaces, outcome="image-pull-error")
    await spaces.world.eventually(lambda: is_told("pod phi-0: "))
    told = json.loads(await shown(spaces.world, "workspace/phi", output="json"))["object"]
    assert told["cause"].startswith("pod phi-0: ")
    (server,) = [each for each in told["children"] if each["kind"] == "StatefulSet"]
    assert server["pods"][0]["state"] == "ImagePullBackOff"


def test_a_tuning_that_runs_has_no_cause_although_it_has_not_succeeded_yet():
    pending = {"type": "WorkspaceSucceeded", "status": "False", "message": "still tuning"}
    assert model_cause({"state": "Running"}, [pending]) == ""
    assert model_cause({"state": "NotReady"}, [pending]) == "still tuning"


async def test_an_inference_set_has_its_workspaces_and_the_table_each_after_it(spaces: Workspaces):
    await spaces.world.user.create(CRDS, "", inference_set_definition())
    gates = FeatureGates({"Workspace": True, "enableInferenceSetController": True})
    settings = KindSettings.from_environment(gates)
    spaces.world.start_operator(kinds=kinds_of(settings, None))
    with served(spaces.world):
        await spaces.world.user.create(INFERENCE_SETS, spaces.world.namespace, set_manifest())

        async def is_ready() -> bool:
            return ": ready (2 of 2 replicas ready)" in await shown(
                spaces.world, "inferenceset/models"
            )

        await spaces.world.eventually(is_ready, seconds=300)
    tree = json.loads(await shown(spaces.world, "inferenceset/models", output="json"))["object"]
    below = [each["kind"] for child in tree["children"] for each in child["children"]]
    assert below == ["NodeClaim", "StatefulSet"] * 2
    rows = [line.split()[0] for line in (await shown(spaces.world)).splitlines()[1:]]
    names = [f"workspace/{each['name']}" for each in tree["children"]]
    assert rows == ["inferenceset/models", *sorted(names)]


async def test_why_names_the_workspace_that_made_a_claim_and_who_wrote_its_specification(
    spaces: Workspaces,
):
    spaces.start_operator()
    await spaces.create()
    await spaces.has_nodes()
    await spaces.world.settle(5)
    (claim,) = await spaces.claims()
    made = await explained(spaces.world, "nodeclaim", claim.metadata.name)
    assert "NodeClaimCreated of workspace/phi" in made["made"]
    assert "ready" in (await explained(spaces.world, "nodeclaim", claim.metadata.name))["now"]
    server = await explained(spaces.world, "statefulset/phi")
    assert "CreatedStatefulSet of workspace/phi" in server["made"]
    assert server["owners"][0].startswith("workspace/phi, starting: ")
    workspace = await explained(spaces.world, "workspace/phi")
    assert "wrote" in workspace["changed"]


@pytest.mark.real_time
async def test_the_page_shows_the_tree_of_a_workspace_without_links_to_what_has_no_page(
    spaces: Workspaces,
):
    spaces.start_operator()
    with served(spaces.world):
        await spaces.create()
        await spaces.reaches("InferenceReady", "True", "WorkspaceInferenceStatusSuccess")
    (claim,) = await spaces.claims()
    async with page(spaces.world, *MODEL_CHILDREN) as session:
        listed = await text(session, "/")
        assert f'href="/workspaces/{spaces.world.namespace}/phi"' in listed
        found = await text(session, f"/workspaces/{spaces.world.namespace}/phi")
    assert 'href="/?kind=workspaces"' in found
    assert f"NodeClaim {claim.metadata.name}" in found
    assert "StatefulSet phi" in found
    assert "CreatedStatefulSet of workspace/phi" in found
