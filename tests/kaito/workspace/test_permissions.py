"""Plans write only what the operator may write, and nothing is granted that none needs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from controller.kaito.api import labels
from controller.kaito.api.inference_pool import INFERENCE_POOLS
from controller.kaito.api.karpenter import NODES
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.resources import Resource
from controller.runtime.plan import Plan, subresource_of
from tests.fakes.verbs import needed
from tests.kaito.inferenceset.given import Given as GivenSet
from tests.kaito.inferenceset.given import replica_of
from tests.kaito.inferenceset.test_inference_pool import SETS_WITH_POOLS, WITH_POOLS, own_pool
from tests.kaito.inferenceset.test_plan import FINALIZER as SET_FINALIZER
from tests.kaito.inferenceset.test_plan import RESOURCE
from tests.kaito.inferenceset.test_plan import deleted as deleted_set
from tests.kaito.permissions import PERMISSIONS
from tests.kaito.support import inference, inference_set, workspace
from tests.kaito.workspace.given import Given, job, node, server, writes
from tests.kaito.workspace.given_pool import NODE_CLASSES, POOLS, UBUNTU, GivenPool
from tests.kaito.workspace.test_plan import TUNING, deleted
from tests.kaito.workspace.test_pools import stored
from tests.ray.test_permissions import RULES as USUAL
from tests.ray.test_permissions import verbs_of

CHART = Path(__file__).parents[3] / "charts" / "manta-operator"
RULES: dict[str, Any] = yaml.safe_load((CHART / "workspace-rules.yaml").read_text())
WATCHING = frozenset({"get", "list", "watch"})
OWN_NODES = KaitoOptions(provisioner=Provisioner.OWN_NODES)
MODES = (
    WorkspaceKind(),
    WorkspaceKind(OWN_NODES),
    WorkspaceKind(POOLS),
    WorkspaceKind(WITH_POOLS),
)
NODE_CLASS_RULE = {
    "apiGroups": ["karpenter.azure.com"],
    "resources": ["aksnodeclasses"],
    "verbs": ["get", "list", "watch", "create"],
}
"""What the chart renders with its own values; `tests/chart/test_workspaces.py` shows it."""

WIDE = [*RULES["cluster"], *RULES["nodePools"], NODE_CLASS_RULE]


def plans() -> list[Plan]:
    """At least one with each kind of write."""
    history = Given()
    for number in range(1, 13):
        history.with_revision(number, name=f"phi-{number}")
    tuning = Given(workspace(**TUNING)).with_nodes().with_revision(2)
    return [
        Given().plan(),
        history.plan(),
        Given().with_nodes().with_revision().plan(),
        Given().with_nodes().with_revision(2).with_server(server()).plan(),
        Given().with_nodes().with_revision().with_deployment().plan(),
        relabelled().plan(),
        tuning.plan(),
        tuning.with_job(job(active=1)).plan(),
        tuning.with_job(job(**{labels.HASH: tuning.observe().valid_goal.hash})).plan(),
        Given(deleted()).with_nodes().plan(),
        *plans_with_pools(),
    ]


def plans_with_pools() -> list[Plan]:
    three = workspace(status={"targetNodeCount": 3})
    given = GivenPool(three)
    missing = GivenPool()
    missing.reads.objects.pop((NODE_CLASSES.plural, UBUNTU))
    larger = workspace(status={"targetNodeCount": 3}, annotations=stored(given))
    return [
        given.plan(),
        missing.plan(),
        GivenPool(larger).with_pool().plan(),
        GivenPool(deleted()).with_pool().plan(),
    ]


def relabelled() -> Given:
    given = Given().with_nodes()
    given.reads.add(NODES, node(**{labels.ACCELERATOR: ""}))
    return given


def plans_of_sets() -> list[Plan]:
    """At least one with each kind of write."""
    template = {"metadata": {"labels": {"team": "a"}}, "resource": RESOURCE}
    labelled = GivenSet(inference_set(template={**template, "inference": inference()}))
    labelled.with_replicas(replica_of(labelled.names[0]))
    surplus = GivenSet(inference_set(replicas=0)).with_replicas(replica_of("models-aaaaa"))
    pooled, other = (GivenSet(each, WITH_POOLS) for each in SETS_WITH_POOLS)
    pooled.reads.add(INFERENCE_POOLS)
    other.reads.add(INFERENCE_POOLS, own_pool())
    deleted = deleted_set(finalizers=(SET_FINALIZER,))
    return [each.plan() for each in (labelled, surplus, pooled, other, deleted)]


def granted(resource: Resource[Any], subresource: str = "") -> frozenset[str]:
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    name = f"{plural}.{resource.group}" if resource.group else plural
    return PERMISSIONS.get(name, frozenset())


def used() -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for plan in (*plans(), *plans_of_sets()):
        for write in (*writes(plan), *((plan.commit,) if plan.commit else ())):
            resource = write.target.resource
            assert needed(write) <= granted(resource, subresource_of(write)), write.target
            name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            found[name] |= needed(write)
    return found


def test_plans_write_what_is_granted_and_no_more_is_granted():
    found = used()
    for name, verbs in PERMISSIONS.items():
        if "/" not in name:
            assert verbs - WATCHING == found.get(name, set()) - WATCHING, name


def test_what_is_watched_may_be_watched():
    for kind in (*MODES, InferenceSetKind(WITH_POOLS)):
        for resource in (kind.primary, *(owned.resource for owned in kind.owned)):
            assert granted(resource) >= WATCHING, resource


def test_the_chart_grants_what_is_needed_and_no_more():
    usual, more = verbs_of(USUAL), verbs_of([*RULES["namespaced"], *RULES["inferencePools"], *WIDE])
    for name, verbs in PERMISSIONS.items():
        assert more.get(name, set()) | usual.get(name, set()) >= verbs, name
    assert more == {name: verbs for name, verbs in PERMISSIONS.items() if name not in usual}


def test_what_is_in_no_namespace_stands_in_a_cluster_role():
    watched = [owned.resource for kind in MODES for owned in kind.owned]
    wide = {str(replace(each, part="")) for each in watched if not each.namespaced}
    assert wide == verbs_of(WIDE).keys()


def test_no_right_to_node_pools_is_granted_where_none_are_made():
    without = verbs_of(RULES["cluster"]).keys()
    for kind in MODES[:2]:
        watched = [owned.resource for owned in kind.owned]
        assert {str(each) for each in watched if not each.namespaced} <= without
