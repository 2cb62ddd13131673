"""InferenceSets on an API server: as many Workspaces as are asked for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import yaml

from controller.command.kinds import KindSettings, kinds_of, kinds_to_plan
from controller.command.planning.offline import empty_cluster, open_definitions
from controller.command.planning.planner import Planner
from controller.kaito.api import labels
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inference_pool import INFERENCE_POOLS
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS, NodeClaim
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.errors import KubeError
from controller.kube.resources import STATEFUL_SETS
from controller.ray.api import FeatureGates
from controller.runtime.kind import Kind
from devcluster.apiserver import StoredEvent
from devcluster.karpenter import ClaimBehaviour, node_claim_definition
from tests.integration.harness import World, install_crds
from tests.integration.inferencesets import SUCCEEDED, InferenceSets, served, set_manifest
from tests.integration.test_rights import RULES, Rights
from tests.integration.workspace_pools import PoolWorkspaces, definitions
from tests.integration.workspaces import Cloud, Workspaces
from tests.kaito.workspace.given_pool import POOLS
from tests.kaito.workspace.test_permissions import NODE_CLASS_RULE

pytestmark = pytest.mark.slow

embedded_only = pytest.mark.embedded_only


@pytest.fixture
async def sets(world: World) -> AsyncIterator[InferenceSets]:
    async with served(world) as found:
        yield found


async def test_a_set_is_scaled_up_and_down_and_deleted_with_its_workspaces(sets: InferenceSets):
    sets.start_operator()
    await sets.create(replicas=2)
    await sets.serves(2, seconds=60)
    first = {each.metadata.name for each in await sets.workspaces()}
    await sets.scale(3)
    await sets.serves(3, seconds=60)
    assert first < {each.metadata.name for each in await sets.workspaces()}
    await sets.scale(1)
    await sets.serves(1, seconds=60)
    found = await sets.get()
    assert found.status["selector"] == "inferenceset.kaito.sh/created-by=models"
    assert found.metadata.finalizers == ()
    if sets.world.server is not None:  # a real one runs no garbage collector here
        await sets.delete()
        await sets.are_gone(seconds=60)
        assert sets.referee.violations == []


@embedded_only
async def test_at_rest_nothing_is_asked_or_written(sets: InferenceSets):
    operator = sets.start_operator()
    await sets.create(replicas=3)
    await sets.serves(3)
    await sets.world.settle(60)
    before = len(operator.transport.journal.entries)
    await sets.world.settle(600)
    later = [each.attributes for each in operator.transport.journal.entries[before:]]
    assert [about for about in later if about.resource and about.verb != "watch"] == []


@embedded_only
async def test_hundreds_of_replicas_come_in_batches_and_go_in_batches(sets: InferenceSets):
    sets.start_operator(KaitoOptions(batch=16))
    await sets.create(replicas=100)
    await sets.serves(100, seconds=120)
    await sets.scale(0)
    await sets.are_gone(seconds=120)
    assert (sets.referee.created, sets.referee.deleted, sets.referee.violations) == (100, 100, [])


@embedded_only
async def test_a_plan_tells_the_workspaces_and_the_nodes_that_they_ask_for(world: World):
    gates = FeatureGates({"Workspace": True, "gatewayAPIInferenceExtension": True})
    settings = KindSettings.from_environment(gates, {})
    async with empty_cluster("test", settings) as client:
        planner = Planner(client, kinds_to_plan(settings), world.wall())
        plan = await planner.for_manifest(set_manifest(replicas=70), "default")
    assert (plan.problem, plan.refusals) == ("", ())
    created = Counter(item.kind for item in plan.items if item.action == "create")
    assert created.pop("InferencePool") == 1
    assert created == {"Workspace": 70, "NodeClaim": 70, "ControllerRevision": 70}


@embedded_only
async def test_with_workspaces_each_replica_gets_its_nodes_and_the_charts_rights_are_enough(
    world: World,
):
    spaces = Workspaces(world, Cloud(ClaimBehaviour(node_after=5)))
    await spaces.install(*kaito_definitions(), node_claim_definition())
    rules = yaml.safe_load((RULES.parent / "workspace-rules.yaml").read_text())
    rights = Rights(*rules["namespaced"], *rules["cluster"])
    assert world.server is not None
    world.server.audit.authorizer = rights.allows
    async with spaces.provisioner():
        world.start_operator(kinds=kaito_kinds({}))
        await world.user.create(INFERENCE_SETS, world.namespace, set_manifest())

        async def has_claims() -> bool:
            return len((await world.user.list(NODE_CLAIMS, "")).items) == 2

        await world.eventually(has_claims)
        await world.settle(30)
        await world.user.delete(INFERENCE_SETS, world.namespace, "models")

        async def is_over() -> bool:
            left = await world.user.list(WORKSPACES, world.namespace)
            return not left.items and not (await world.user.list(NODE_CLAIMS, "")).items

        await world.eventually(is_over, seconds=300)
    assert rights.refused == []


def kaito_kinds(environment: dict[str, str]) -> list[Kind[Any]]:
    """Both kinds, as the operator has them."""
    settings = KindSettings.from_environment(FeatureGates({"Workspace": True}), environment)
    own = {"workspace-controller", "inferenceset-controller"}
    return [kind for kind in kinds_of(settings, None) if kind.name in own]


@asynccontextmanager
async def rollouts(world: World) -> AsyncGenerator[None]:
    """Have each server become ready three seconds after every change, and not be ready before."""
    server, kubelet = world.server, world.client("model-servers")
    assert server is not None
    seen: set[tuple[str, int]] = set()

    async def roll_out(namespace: str, name: str, generation: int) -> None:
        for ready in (0, 1):
            status = {"replicas": 1, "readyReplicas": ready, "updatedReplicas": ready}
            patch = {"status": {**status, "observedGeneration": generation}}
            with suppress(KubeError):
                await kubelet.merge_patch(
                    STATEFUL_SETS, namespace, name, patch, subresource="status"
                )
            await asyncio.sleep(3)

    def on_write(event: StoredEvent) -> None:
        metadata = event.current.object["metadata"]
        change = (metadata["uid"], metadata.get("generation", 1))
        if event.table == str(STATEFUL_SETS) and change not in seen:
            seen.add(change)
            world.background(roll_out(metadata["namespace"], metadata["name"], change[1]))

    server.on_write.append(on_write)
    yield
    server.on_write.remove(on_write)


@embedded_only
@pytest.mark.parametrize("strategy", ["InPlace", "Surge"])
async def test_a_newer_operator_upgrades_all_servers_one_after_the_other(
    world: World, strategy: str
):
    spaces = Workspaces(world, Cloud(ClaimBehaviour(node_after=5)))
    await spaces.install(*kaito_definitions(), node_claim_definition())
    body = set_manifest(replicas=3)
    body["spec"]["autoUpgrade"] = {"enabled": True, "strategy": strategy}
    lowest: list[int] = []

    async def images() -> list[str]:
        servers = (await world.user.list(STATEFUL_SETS, world.namespace)).items
        lowest.append(sum(each.status.ready_replicas for each in servers))
        found = [each.spec.template.spec.containers[0].image for each in servers]
        return sorted(image.partition("/")[0] for image in found)

    async def state() -> dict[str, Any]:
        return (await world.user.get(INFERENCE_SETS, world.namespace, "models")).status

    async def has_new_images() -> bool:
        status = await state()
        ready = (await images(), status.get("readyReplicas")) == (["new.example"] * 3, 3)
        return ready and status["autoUpgrade"]["numDriftedWorkspaces"] == 0

    async def serves() -> bool:
        return (await state()).get("readyReplicas") == 3

    async with spaces.provisioner(), rollouts(world):
        older = world.start_operator(kinds=kaito_kinds({"PRESET_REGISTRY_NAME": "old.example"}))
        await world.user.create(INFERENCE_SETS, world.namespace, body)
        await world.eventually(serves, seconds=300)
        await older.kill()
        assert await images() == ["old.example"] * 3
        world.start_operator(kinds=kaito_kinds({"PRESET_REGISTRY_NAME": "new.example"}))
        lowest.clear()
        await world.eventually(has_new_images, seconds=900, pause=1)
    assert min(lowest) == (2 if strategy == "InPlace" else 3)
    assert (await state())["autoUpgrade"]["lastSuccessfulUpgradeTime"]


@embedded_only
async def test_drifted_nodes_are_replaced_for_one_replica_after_the_other(world: World):
    spaces = PoolWorkspaces(world)
    await spaces.install(*kaito_definitions(), *definitions()[1:])
    rules = yaml.safe_load((RULES.parent / "workspace-rules.yaml").read_text())
    rights = Rights(*rules["namespaced"], *rules["cluster"], *rules["nodePools"], NODE_CLASS_RULE)
    assert world.server is not None
    world.server.audit.authorizer = rights.allows
    drifted = SUCCEEDED | {"type": "Drifted"}

    async def budgets() -> list[str]:
        pools = (await world.user.list(NODE_POOLS, "")).items
        return sorted(each.spec.disruption.budgets[0].nodes for each in pools)

    async def claims() -> dict[str, NodeClaim]:
        found = (await world.user.list(NODE_CLAIMS, "")).items
        return {each.metadata.uid: each for each in found}

    async def serves() -> bool:
        found = await world.user.get(INFERENCE_SETS, world.namespace, "models")
        return found.status.get("readyReplicas") == 2 and await budgets() == ["0", "0"]

    async def is_open() -> bool:
        return await budgets() == ["0", "1"]

    async with spaces.provisioner(), rollouts(world):
        world.start_operator(kinds=[WorkspaceKind(POOLS), InferenceSetKind(POOLS)])
        await world.user.create(INFERENCE_SETS, world.namespace, set_manifest())
        await world.eventually(serves, seconds=300)
        before = await claims()
        for each in before.values():
            conditions = [*each.status.conditions, drifted]
            patch = {"status": {"conditions": msgspec.to_builtins(conditions)}}
            await world.user.merge_patch(
                NODE_CLAIMS, "", each.metadata.name, patch, subresource="status"
            )
        for left in (1, 0):
            await world.eventually(is_open, seconds=60)
            await world.settle(120)
            assert await is_open()
            opened = [
                pool.metadata.name
                for pool in (await world.user.list(NODE_POOLS, "")).items
                if pool.spec.disruption.budgets[0].nodes == "1"
            ]
            for each in (await claims()).values():  # what Karpenter does
                if (each.metadata.labels or {}).get(labels.NODE_POOL) in opened:
                    await world.user.delete(NODE_CLAIMS, "", each.metadata.name)
            await world.settle(120)
            assert len((await claims()).keys() & before.keys()) == left
        await world.eventually(serves, seconds=300)
    events = [reason for reason, _ in await world.events_about("InferenceSet", "models")]
    drifts = [reason for reason in events if reason.startswith("Drift")]
    assert drifts == ["DriftStarted", "DriftComplete"] * 2
    assert rights.refused == []


@embedded_only
async def test_inference_pools_come_once_their_definition_does_and_go_with_their_set(
    sets: InferenceSets,
):
    world = sets.world
    options = KaitoOptions(inference_pools=True)
    sets.start_operator(options)
    await sets.create(replicas=1)
    await sets.serves(1)

    async def condition() -> str:
        found = (await sets.get()).status["conditions"]
        return next(each["reason"] for each in found if each["type"] == "InferencePoolReady")

    assert await condition() == "InferencePoolsNotServed"
    await install_crds(world, *open_definitions(INFERENCE_POOLS))
    await world.becomes(condition, "InferencePoolReady", seconds=900)
    pool = await world.user.get(INFERENCE_POOLS, world.namespace, "models-inferencepool")
    await world.user.delete(INFERENCE_POOLS, world.namespace, pool.metadata.name)
    await world.settle(10)
    again = await world.user.get(INFERENCE_POOLS, world.namespace, "models-inferencepool")
    assert again.metadata.uid != pool.metadata.uid
    await sets.delete()

    async def is_gone() -> bool:
        return not (await world.user.list(INFERENCE_POOLS, world.namespace)).items

    await world.eventually(is_gone, seconds=300)
