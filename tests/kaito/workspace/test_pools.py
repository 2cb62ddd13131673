"""The plans of Workspaces whose nodes come with NodePools, from plain observations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS, POOL_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.provisioning.pools import PoolCommitment, read_pool_commitment
from controller.runtime.plan import Create, Delete, Failure, MergePatch
from tests.kaito.support import workspace
from tests.kaito.workspace.given import NOW, claim, kinds, node, server, writes
from tests.kaito.workspace.given_pool import (
    NAME,
    NODE_CLASSES,
    OWN_LABELS,
    SPEC,
    UBUNTU,
    GivenPool,
    node_class,
    own_node,
    pool,
    pool_claim,
    pool_node,
)
from tests.kaito.workspace.test_plan import changed, deleted

FOREIGN = {labels.POOL_WORKSPACE: "b-c", labels.POOL_WORKSPACE_NAMESPACE: "a"}


def three_nodes(**changes: Any) -> Any:
    return workspace(status={"targetNodeCount": 3}, **changes)


def committed(given: GivenPool) -> PoolCommitment | None:
    commit = given.plan().commit
    assert isinstance(commit, MergePatch)
    annotations = commit.patch["metadata"].get("annotations", {})
    return read_pool_commitment(annotations.get(labels.NODE_POOL_COMMITMENT))


def stored(given: GivenPool) -> dict[str, str]:
    """The annotations of the Workspace after its first plan."""
    commit = given.plan().commit
    assert isinstance(commit, MergePatch)
    return commit.patch["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("age", "claims", "settles"),
    [
        (9, [], 0.0),
        (10, [], 30.0),
        (3600, [3600], 0.0),
        (3600, [3590], 0.0),
        (3600, [3600, 3589], 0.0),
        (3600, [3600, 599], 30.0),
        (3600, [600], 0.0),
        (60, [51], 0.0),
        (60, [49], 30.0),
    ],
)
def test_a_status_settles_while_karpenter_replaces_claims_that_were_lost(
    age: int, claims: list[int], settles: float
):
    """A pool and claims of so many seconds."""

    def made(seconds: int) -> dict[str, str]:
        return {"creationTimestamp": rfc3339(NOW - timedelta(seconds=seconds))}

    given = GivenPool()
    given.reads.add(NODE_POOLS, pool(metadata=made(age)))
    for number, each in enumerate(claims):
        found = pool_claim(f"default-phi-{number}")
        metadata = msgspec.structs.replace(
            found.metadata, creation_timestamp=made(each)["creationTimestamp"]
        )
        given.reads.add(NODE_CLAIMS, msgspec.structs.replace(found, metadata=metadata))
        given.reads.add(POOL_CLAIMS, msgspec.structs.replace(found, metadata=metadata))
    status = given.plan().status
    assert status is not None
    assert status.settles == settles


def test_the_workload_waits_for_the_claims_also_if_all_nodes_are_ready():
    given = GivenPool().with_revision()
    given.reads.add(NODE_POOLS, pool()).add(NODE_CLAIMS, pool_claim(ready=False))
    given.reads.add(given.nodes, pool_node())
    assert given.condition("NodesReady")[0] == "True"
    assert given.creates(given.plan(), "StatefulSet") == []


def test_a_pool_of_kaito_is_taken_over_without_a_write():
    kaito = {key: value for key, value in OWN_LABELS.items() if key != OWNER_UID}
    given = GivenPool(workspace(status={"targetNodeCount": 1})).with_pool()
    given.reads.add(NODE_POOLS, pool(owner=kaito))
    given.reads.add(NODE_CLAIMS, pool_claim(**{OWNER_UID: ""}))
    given.reads.add(given.nodes, pool_node(**{OWNER_UID: ""}))
    given.with_revision(1).with_services().with_server(server())
    assert writes(given.plan()) == []
    assert given.state == "Ready"


def test_a_pool_for_other_nodes_is_deleted_by_its_uid():
    given = GivenPool().with_revision()
    given.reads.add(
        NODE_POOLS, pool(metadata={"annotations": {labels.NODE_TEMPLATE: "Standard_NY"}})
    )
    (delete,) = writes(given.plan())
    assert isinstance(delete, Delete)
    assert (delete.target.name, delete.uid) == (NAME, "p-1")


def test_nodes_and_claims_that_are_there_make_the_pool_smaller():
    given = GivenPool(three_nodes())
    given.reads.add(NODE_CLAIMS, claim())
    given.reads.add(given.nodes, own_node(), own_node("n8", **{labels.INSTANCE_TYPE: "other"}))
    found = committed(given)
    assert found is not None
    assert (found.replicas, found.nodes, found.claims) == (1, ("n9",), ("wsaaaaaaaaa",))


# what is there already


@pytest.mark.parametrize(
    "more",
    [
        {"apps": "other"},
        {labels.POOL_WORKSPACE: "another"},
        {labels.WORKSPACE: "another"},
        {labels.NODE_POOL: "general"},
    ],
)
def test_nodes_of_others_cover_nothing(more: dict[str, str]):
    given = GivenPool()
    given.reads.add(given.nodes, own_node(**more))
    found = committed(given)
    assert found is not None
    assert found.replicas == 1


def another(created: str, given: GivenPool) -> Any:
    """A Workspace of the same namespace that counts the node n9."""
    found = workspace(name="other", uid="u-2", annotations=stored(given))
    return changed(found, creation_timestamp=created)


def test_a_node_that_another_workspace_counts_is_not_counted():
    first = GivenPool()
    first.reads.add(first.nodes, own_node())
    given = GivenPool()
    given.reads.add(given.nodes, own_node()).add(WORKSPACES, another("2027-01-01", first))
    assert [node.name for node in given.observe().nodes] == []
    assert given.creates(given.plan(), "NodePool")


@pytest.mark.parametrize(("created", "keeps"), [("2025-01-01", False), ("2027-01-01", True)])
def test_a_node_that_two_workspaces_count_stays_with_the_older_one(created: str, keeps: bool):
    first = GivenPool()
    first.reads.add(first.nodes, own_node())
    given = GivenPool(workspace(annotations=stored(first)))
    given.reads.add(given.nodes, own_node()).add(WORKSPACES, another(created, first))
    found = bool(given.creates(given.plan(), "NodePool"))
    assert found is not keeps


def test_a_lost_node_is_looked_up_before_the_pool_grows():
    first = GivenPool(three_nodes())
    first.reads.add(first.nodes, own_node())
    given = GivenPool(three_nodes(annotations=stored(first))).with_pool(replicas=2)
    (lookup,) = given.plan().lookups
    assert lookup.target.name == "n9"  # type: ignore[union-attr]
    assert given.plan().commit is None
    given.reads.absent.add("n9")
    found = committed(given)
    assert found is not None
    assert (found.replicas, found.nodes) == (3, ())


def test_a_node_that_has_lost_its_labels_needs_no_look_up():
    first = GivenPool(three_nodes())
    first.reads.add(first.nodes, own_node())
    given = GivenPool(three_nodes(annotations=stored(first))).with_pool(replicas=2)
    given.reads.add(given.nodes, own_node(apps="other"))
    assert given.plan().lookups == ()
    found = committed(given)
    assert found is not None
    assert found.replicas == 3


# whose the name is


def test_the_pool_of_another_workspace_is_left_alone_also_when_this_one_is_deleted():
    given = GivenPool().with_revision()
    given.reads.add(NODE_POOLS, pool(owner=FOREIGN, replicas=0))
    assert writes(given.plan()) == []
    status, reason, message = given.condition("ResourceReady")
    assert (status, reason) == ("False", "NodePoolNameTaken")
    assert "belongs to Workspace a/b-c: create this Workspace under another name" in message
    given = GivenPool(deleted())
    given.reads.add(NODE_POOLS, pool(owner=FOREIGN))
    assert writes(given.plan()) == []
    assert given.plan().commit is not None


def test_a_name_that_a_create_has_found_taken_is_said():
    given = GivenPool().with_revision()
    given.reads.taken.add(f"NodePool/{NAME}")
    assert writes(given.plan()) == []
    assert given.condition("NodeClaimReady")[:2] == ("False", "NodePoolNameTaken")


# node classes


def test_a_missing_node_class_is_created_as_it_is_configured():
    given = GivenPool().with_revision()
    given.reads.objects.pop((NODE_CLASSES.plural, UBUNTU))
    plan = given.plan()
    assert kinds(plan) == [["create AKSNodeClass"]]
    assert labels.NODE_POOL_COMMITMENT not in stored(given)
    (create,) = given.creates(plan, "AKSNodeClass")
    assert create.body == {
        "apiVersion": "karpenter.azure.com/v1beta1",
        "kind": "AKSNodeClass",
        "metadata": {
            "name": UBUNTU,
            "labels": {
                "karpenter.kaito.sh/managed-by": "kaito",
                "karpenter.kaito.sh/default": "true",
            },
        },
        "spec": SPEC,
    }
    given.reads.pending = frozenset({f"node-class/{UBUNTU}"})
    assert writes(given.plan()) == []


def test_a_node_class_that_is_not_configured_in_full_has_to_be_created_by_an_administrator():
    given = GivenPool(workspace(annotations={labels.NODE_CLASS_NAME: "other"})).with_revision()
    assert writes(given.plan()) == []
    assert given.condition("NodeClaimReady") == (
        "False",
        "NodeClassMissing",
        "there is no AKSNodeClass other: create it",
    )
    given.reads.add(NODE_CLASSES, node_class("other"))
    (create,) = given.creates(given.plan(), "NodePool")
    assert create.body["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "other"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (node_class(ready=""), "waiting until Karpenter's provider reports that it is ready"),
        (node_class(ready="False", message="no such subnet"), "is not ready: no such subnet"),
        (changed(node_class(), deletion_timestamp="2026-01-01T00:00:00Z"), "is being deleted"),
    ],
)
def test_no_pool_is_created_before_its_node_class_is_ready(found: Any, message: str):
    given = GivenPool().with_revision()
    given.reads.add(NODE_CLASSES, found)
    plan = given.plan()
    assert (writes(plan), plan.requeue_after) == ([], None)
    condition = given.condition("NodeClaimReady")
    assert condition[:2] == ("False", "NodeClassNotReady")
    assert message in condition[2]


# what is missing, and what fails


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (NODE_POOLS, "NodePoolsNotServed"),
        (POOL_CLAIMS, "NodePoolsNotServed"),
        (NODE_CLASSES, "NodeClassesNotServed"),
    ],
)
def test_definitions_that_are_missing_are_said_and_waited_for(resource: Any, reason: str):
    given = GivenPool().with_revision()
    given.reads.served.discard(resource)
    assert writes(given.plan()) == []
    assert given.condition("ResourceReady")[:2] == ("False", reason)


@pytest.mark.parametrize("kind", ["NodePool", "AKSNodeClass"])
def test_a_refused_create_is_said(kind: str):
    given = GivenPool().with_revision()
    if kind == "AKSNodeClass":
        given.reads.objects.pop((NODE_CLASSES.plural, UBUNTU))
    plan, seen = given.plan(), given.observe()
    (create,) = given.creates(plan, kind)
    status = given.kind.status_after(seen, plan, (Failure(create, "Forbidden", "no"),), NOW)
    assert status is not None
    (condition,) = [c for c in status.wanted["conditions"] if c["type"] == "NodeClaimReady"]
    assert condition["reason"] == "Forbidden"
    assert condition["message"].startswith(f"cannot create {kind} {create.target.name}: no; ")
    reasons = [event.reason for event in status.events]
    assert reasons == (["NodePoolCreationFailed"] if kind == "NodePool" else [])


def test_the_finalizer_stays_until_pool_and_claims_are_gone():
    given = GivenPool(deleted()).with_pool()
    given.reads.add(NODE_CLAIMS, claim())
    plan = given.plan()
    assert kinds(plan) == [["delete NodePool", "delete NodeClaim"]]
    assert (plan.commit, plan.requeue_after) == (None, 14 * 60.0)
    status = plan.status
    assert status is not None
    assert (
        "waiting until these are gone: NodePool default-phi, NodeClaim default-phi-abcde, "
        in (status.wanted["conditions"][0]["message"])
    )
    given.reads.objects.pop((NODE_POOLS.plural, NAME))
    given.reads.objects.pop((NODE_CLAIMS.plural, "wsaaaaaaaaa"))
    given.reads.absent.add(NAME)
    plan = given.plan()
    assert (writes(plan), plan.commit) == ([], None)
    given.reads.objects.pop((NODE_CLAIMS.plural, "default-phi-abcde"))
    assert given.plan().commit.patch == {"metadata": {"finalizers": []}}  # type: ignore[union-attr]


# the end


def test_a_pool_that_is_not_seen_is_looked_up_before_the_finalizer_is_removed():
    given = GivenPool(deleted())
    (lookup,) = given.plan().lookups
    assert (lookup.target.name, given.plan().commit) == (NAME, None)  # type: ignore[union-attr]
    given.reads.absent.add(NAME)
    assert given.plan().commit is not None


def test_a_pool_whose_creation_has_no_known_outcome_is_waited_for():
    given = GivenPool(deleted())
    given.reads.pending = frozenset({"node-pool"})
    plan = given.plan()
    assert (plan.lookups, writes(plan), plan.commit) == ((), [], None)


def test_pods_may_run_on_the_nodes_that_were_there_before():
    given = GivenPool(workspace(status={"targetNodeCount": 1})).with_revision()
    given.reads.add(given.nodes, own_node())
    (create,) = given.creates(given.plan(), "StatefulSet")
    assert isinstance(create, Create)
    affinity = create.body["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    fitting = [term for term in terms if fits(own_node().metadata.labels or {}, term)]
    assert len(fitting) == 1
    assert any(fits(pool_node().metadata.labels or {}, term) for term in terms)
    assert any(fits(node().metadata.labels or {}, term) for term in terms)
    others = {labels.POOL_WORKSPACE: "another"}, {labels.WORKSPACE: "another"}
    for more in others:
        assert not any(fits(own_node(**more).metadata.labels or {}, term) for term in terms)


def fits(own: dict[str, str], term: dict[str, Any]) -> bool:
    """The rule of the scheduler, as far as it is used."""
    for each in term["matchExpressions"]:
        if each["operator"] == "In" and own.get(each["key"]) not in each["values"]:
            return False
        if each["operator"] == "DoesNotExist" and each["key"] in own:
            return False
    return True
