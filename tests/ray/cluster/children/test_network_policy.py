"""NetworkPolicies: modes, rules, who is admitted, and what must not be removed too early."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kube.resources import NETWORK_POLICIES, PODS
from controller.runtime.plan import Create, Delete, Plan, Replace
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    cluster,
    head,
    manifest,
    plan,
    pod,
    reads,
    with_children,
    workers,
    writes,
)

Json = dict[str, Any]

OWN: Json = {"podSelector": {"matchLabels": {"ray.io/cluster": "example"}}}
RULE: Json = {"ports": [{"port": 9999, "protocol": "TCP"}]}
JOB: Json = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "name": "train",
    "uid": "1",
    "controller": True,
}


def sample(policy: Json | None, **metadata: Any) -> Json:
    raw = manifest()
    raw["metadata"] |= metadata
    raw["spec"]["networkPolicy"] = policy
    return raw


def living(raw: Json) -> FakeReads:
    """A cluster that runs, and all of its children."""
    kept = reads(cluster(raw), head(), *workers(2), served={NETWORK_POLICIES})
    return with_children(kept)


def specs(raw: Json) -> dict[str, Json]:
    """The created policies by name."""
    made = plan(reads(cluster(raw), served={NETWORK_POLICIES}))
    return {
        write.target.name: write.body["spec"]
        for write in made.stages[0]
        if isinstance(write, Create) and write.target.resource is NETWORK_POLICIES
    }


def repairs(made: Plan) -> list[Any]:
    return [each for each in made.independent if each.target.resource is NETWORK_POLICIES]


@pytest.mark.parametrize(
    ("mode", "types"),
    [
        ("DenyAll", {"Ingress": "from", "Egress": "to"}),
        ("DenyAllIngress", {"Ingress": "from"}),
        ("DenyAllEgress", {"Egress": "to"}),
    ],
)
def test_a_mode_denies_only_its_direction(mode: str, types: dict[str, str]):
    for spec in specs(sample({"mode": mode})).values():
        assert spec["policyTypes"] == list(types)
        rules = {key: spec[key] for key in ("ingress", "egress") if key in spec}
        assert rules == {kind.lower(): [{peers: [OWN]}] for kind, peers in types.items()}


def test_rules_of_a_group_replace_those_of_the_workers_and_no_part_gets_those_of_another():
    raw = sample({
        "head": {"ingressRules": [{"ports": [{"port": 1}]}]},
        "worker": {"egressRules": [RULE]},
        "workerGroups": [{"groupName": "gpu", "ingressRules": [RULE]}],
    })  # fmt: skip
    [group] = raw["spec"]["workerGroupSpecs"]
    raw["spec"]["workerGroupSpecs"].append(group | {"groupName": "gpu"})
    found = {name: (spec["ingress"][1:], spec["egress"][1:]) for name, spec in specs(raw).items()}
    assert found == {
        "example-head": ([{"ports": [{"port": 1}]}], []),
        "example-workers-workers": ([], [RULE]),
        "example-workers-gpu": ([RULE], []),
    }


@pytest.mark.parametrize(
    ("mode", "owner", "parameters", "ports"),
    [
        ("K8sJobMode", JOB, {}, [8265]),
        ("K8sJobMode", JOB, {"dashboard-port": "9265"}, [9265, 8265]),
        ("K8sJobMode", JOB, {"dashboard-port": "none"}, [8265]),
        ("SidecarMode", JOB, {}, []),
        ("K8sJobMode", JOB | {"controller": False}, {}, []),
        ("K8sJobMode", JOB | {"apiVersion": "batch/v1"}, {}, []),
    ],
)
def test_the_submitter_of_the_rayjob_that_owns_the_cluster_reaches_the_dashboard(
    mode: str, owner: Json, parameters: Json, ports: list[int]
):
    marks = {"ray.io/job-submission-mode": mode}
    raw = sample({}, labels=marks, ownerReferences=[owner])
    raw["spec"]["headGroupSpec"]["rayStartParams"] = parameters
    found = specs(raw)
    submitter = {"ray.io/originated-from-cr-name": "train", "ray.io/originated-from-crd": "RayJob"}
    rule = {
        "from": [{"podSelector": {"matchLabels": submitter}}],
        "ports": [{"protocol": "TCP", "port": port} for port in ports],
    }
    assert found["example-head"]["ingress"][1:] == ([rule] if ports else [])
    assert len(found["example-workers-workers"]["ingress"]) == 1


def test_without_the_right_to_list_them_no_pod_is_made_and_the_cause_is_told():
    made = plan(reads(cluster(sample({}))))
    assert "Pod" not in {write.target.resource.kind for stage in made.stages for write in stage}
    assert made.status is not None
    [ready] = [each for each in made.status.wanted["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "Forbidden")
    assert "grant it the verbs get, list, watch, create, update and delete" in ready["message"]
    assert "networkpolicies.networking.k8s.io" in ready["message"]
    others = plan(reads(cluster(sample(None))))
    assert "Pod" in {write.target.resource.kind for stage in others.stages for write in stage}


def test_a_policy_of_another_owner_holds_the_pods_back_under_kuberays_reason():
    taken = {"NetworkPolicy/default/example-head"}
    made = plan(reads(cluster(sample({})), served={NETWORK_POLICIES}, taken=taken))
    assert "Pod" not in {write.target.resource.kind for stage in made.stages for write in stage}
    assert "create NetworkPolicy example-workers-workers" in writes(made)
    assert made.status is not None
    [event] = made.status.events
    assert event.reason == "NetworkPolicyNameCollision"


def test_at_rest_nothing_is_written_whatever_the_api_server_has_filled_in():
    ports = [{"port": 53}, {"port": "dns", "protocol": "UDP"}]
    raw = sample({"worker": {"egressRules": [{"to": [], "ports": ports}, {}]}})
    kept = living(raw)
    name = "example-workers-workers"
    stored = msgspec.to_builtins(kept.get(NETWORK_POLICIES, f"default/{name}"))
    stored["spec"]["egress"] = [
        *stored["spec"]["egress"][:1],
        {"ports": [{"port": 53, "protocol": "TCP"}, ports[1]]},
        {},
    ]
    kept.add(NETWORK_POLICIES, msgspec.convert(stored, NETWORK_POLICIES.view))
    assert repairs(plan(kept)) == []


OPENED: list[Json] = [
    {"ingress": [{}]},
    {"egress": [{}], "policyTypes": ["Ingress"]},
    {"podSelector": {"matchLabels": {"ray.io/cluster": "example", "only": "these"}}},
    {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
]


@pytest.mark.parametrize("change", OPENED)
def test_a_policy_that_somebody_has_opened_is_closed_again(change: Json):
    kept = living(sample({}))
    stored = msgspec.to_builtins(kept.get(NETWORK_POLICIES, "default/example-head"))
    good = stored["spec"]
    kept.add(
        NETWORK_POLICIES, msgspec.convert(stored | {"spec": good | change}, NETWORK_POLICIES.view)
    )
    [repair] = repairs(plan(kept))
    assert isinstance(repair, Replace), "KubeRay's role grants no patch"
    assert repair.on_success is not None
    assert repair.on_success.reason == "UpdatedNetworkPolicy"
    spec = repair.merge["spec"]
    assert all(spec[key] == list(good[key]) for key in change if key != "podSelector")
    if "podSelector" in change:
        assert {"matchLabels", "matchExpressions"} & spec["podSelector"].keys()


@pytest.mark.parametrize("left", [None, "Running", "terminating"])
def test_the_policy_of_a_removed_group_stays_until_its_pods_are_gone(left: str | None):
    raw = sample({})
    [group] = raw["spec"]["workerGroupSpecs"]
    raw["spec"]["workerGroupSpecs"] = [group, group | {"groupName": "gpu", "replicas": 0}]
    kept = living(raw)
    raw["spec"]["workerGroupSpecs"] = [group]
    kept.add(kept.kind.primary, cluster(raw))
    if left:
        kept.add(PODS, pod("example-gpu-worker-aaaaaaaa", "gpu", terminating=left != "Running"))
    deleted = [each.target.name for each in repairs(plan(kept)) if isinstance(each, Delete)]
    assert deleted == ([] if left else ["example-workers-gpu"])


@pytest.mark.parametrize(
    ("policy", "origin", "fields"),
    [
        ({}, "", ["head.egressRules", "worker.egressRules"]),
        ({"worker": {"egressRules": [RULE]}}, "", ["head.egressRules"]),
        ({"mode": "DenyAllIngress"}, "", []),
        ({"mode": "DenyAllIngress"}, "RayJob", ["head.ingressRules"]),
        ({"mode": "DenyAllIngress", "head": {"ingressRules": [RULE]}}, "RayService", []),
        (None, "RayJob", []),
    ],
)
def test_connections_that_a_cluster_needs_and_nothing_admits_are_warned_of(
    policy: Json | None, origin: str, fields: list[str]
):
    marks = {"ray.io/originated-from-crd": origin} if origin else {}
    made = plan(reads(cluster(sample(policy, labels=marks)), served={NETWORK_POLICIES}))
    found = [each.note.partition(":")[0] for each in made.events]
    assert found == [f"spec.networkPolicy.{field}" for field in fields]
