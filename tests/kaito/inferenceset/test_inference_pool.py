"""InferencePools of InferenceSets and Workspaces, for routers of the Gateway API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kaito.api import labels
from controller.kaito.api.inference_pool import INFERENCE_POOLS
from controller.kaito.api.options import KaitoOptions
from controller.kube.objects import KubeObject
from controller.runtime.kind import CreateError
from controller.runtime.plan import Create, Delete
from tests.kaito.inferenceset.given import Given, replica_of, with_metadata, writes
from tests.kaito.support import inference_set, tuning, workspace
from tests.kaito.workspace.given import Given as GivenWorkspace
from tests.kaito.workspace.given import writes as writes_of

WITH_POOLS = KaitoOptions(inference_pools=True)
NAME = "models-inferencepool"
TRANSFORMERS = {labels.RUNTIME: "transformers"}
SETS_WITH_POOLS = inference_set(), with_metadata(inference_set(), annotations=TRANSFORMERS)
"""One that wants a pool, and one that does not want it any more."""


def own_pool(name: str = NAME, owner: str = "s-1") -> KubeObject:
    """The pool of an object."""
    reference = {"apiVersion": "kaito.sh/v1beta1", "kind": "InferenceSet", "name": "models"}
    owners = [{**reference, "uid": owner, "controller": True}]
    metadata = {"name": name, "namespace": "default", "uid": "i-1", "ownerReferences": owners}
    return msgspec.convert({"metadata": metadata}, KubeObject)


def given(found: Any = None, *pools: KubeObject, served: bool = True) -> Given:
    """A set whose Workspaces are there."""
    world = Given(found, WITH_POOLS)
    world.with_replicas(*(replica_of(name, ready=True) for name in world.names[:2]))
    if served:
        world.reads.add(INFERENCE_POOLS, *pools)
    return world


def test_a_set_gets_the_pool_that_kaitos_chart_makes():
    (create,) = writes(given().plan())
    assert isinstance(create, Create)
    assert create.body == {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {
            "name": NAME,
            "namespace": "default",
            "ownerReferences": [
                {
                    "apiVersion": "kaito.sh/v1beta1",
                    "kind": "InferenceSet",
                    "name": "models",
                    "uid": "s-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "selector": {
                "matchLabels": {
                    "inferenceset.kaito.sh/created-by": "models",
                    "apps.kubernetes.io/pod-index": "0",
                }
            },
            "targetPorts": [{"number": 5000}],
            "endpointPickerRef": {"name": f"{NAME}-epp", "port": {"number": 9002}},
        },
    }


def test_a_workspace_of_no_set_gets_one_of_its_own():
    for own, names in (({}, ["phi-inferencepool"]), ({labels.CREATED_BY_INFERENCE_SET: "x"}, [])):
        world = GivenWorkspace(workspace(labels=own), WITH_POOLS)
        world.reads.add(INFERENCE_POOLS)
        created = [
            each
            for each in writes_of(world.plan())
            if isinstance(each, Create) and each.target.resource is INFERENCE_POOLS
        ]
        assert [each.target.name for each in created] == names
        for each in created:
            assert each.body["spec"]["selector"]["matchLabels"] == {
                "kaito.sh/workspace": "phi",
                "apps.kubernetes.io/pod-index": "0",
            }


def test_the_pool_is_reported():
    world = given(None, own_pool())
    assert writes(world.plan()) == []
    message = f"InferencePool {NAME} names the pods"
    assert world.condition("InferencePoolReady") == ("True", "InferencePoolReady", message)


@pytest.mark.parametrize(
    "found",
    [
        with_metadata(inference_set(), annotations=TRANSFORMERS),
        with_metadata(inference_set(), labels={labels.CREATED_BY_MULTI_ROLE: "roles"}),
        inference_set(
            template={
                "resource": {"instanceType": "Standard_NC24ads_A100_v4"},
                "inference": {"template": {"spec": {"containers": [{"name": "own"}]}}},
            }
        ),
    ],
    ids=["transformers", "shared", "template"],
)
def test_only_models_that_vllm_serves_have_pools(found: Any):
    assert [each for each in writes(given(found).plan()) if isinstance(each, Create)] == []
    world = given(found, own_pool())
    (delete,) = [each for each in writes(world.plan()) if isinstance(each, Delete)]
    assert (delete.target.name, delete.uid) == (NAME, "i-1")
    assert world.condition("InferencePoolReady") == ("", "", "")


def test_a_tuning_has_no_pool():
    found = workspace(tuning=tuning())
    world = GivenWorkspace(found, WITH_POOLS)
    world.reads.add(INFERENCE_POOLS)
    assert INFERENCE_POOLS not in {each.target.resource for each in writes_of(world.plan())}


def test_without_the_definition_of_pools_this_is_the_cause_and_nothing_else_waits():
    world = given(served=False)
    assert writes(world.plan()) == []
    assert world.condition()[0] == "True"
    status, reason, message = world.condition("InferencePoolReady")
    assert (status, reason) == ("False", "InferencePoolsNotServed")
    assert message.startswith("the API server has no InferencePools: install the definitions")


def test_a_pool_of_another_owner_is_named_and_left_alone():
    world = given(None, own_pool(owner="other"))
    assert writes(world.plan()) == []
    status, reason, message = world.condition("InferencePoolReady")
    assert (status, reason) == ("False", "InferencePoolNameTaken")
    assert message.startswith(f"there is an InferencePool {NAME} that ")
    unseen = given()
    unseen.reads.taken.add(f"InferencePool/default/{NAME}")
    assert writes(unseen.plan()) == []
    assert unseen.condition("InferencePoolReady")[1] == "InferencePoolNameTaken"


def test_a_refused_create_is_told():
    world = given()
    assert world.condition("InferencePoolReady")[1] == "InferencePoolNotReady"
    error = CreateError("Forbidden", "denied by a webhook")
    world.reads.refused[f"InferencePool/default/{NAME}"] = error
    status, reason, message = world.condition("InferencePoolReady")
    assert (status, reason) == ("False", "InferencePoolFailed")
    assert "denied by a webhook" in message
