"""The body of a NodeClaim, and what is read of one."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml

from controller.kaito.api.karpenter import NodeClaim
from controller.kaito.api.options import KaitoOptions
from controller.kaito.presets.gpus import Cloud
from controller.kaito.provisioning.claims import (
    ClaimState,
    claim_state,
    first_cause,
    observed_claim,
)
from controller.kaito.provisioning.nodes import (
    claim_name,
    node_claim_body,
    node_pool_name,
    node_request,
)
from tests.kaito.support import workspace

AZURE = """
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: ws012345678
  labels:
    karpenter.sh/nodepool: kaito
    kaito.sh/workspace: phi
    kaito.sh/workspacenamespace: default
    apps: phi
    manta.dev/owner-uid: u-1
  annotations:
    karpenter.sh/do-not-disrupt: "true"
    kaito.sh/node-image-family: ubuntu
spec:
  expireAfter: Never
  nodeClassRef: {name: default, kind: KaitoNodeClass, group: kaito.sh}
  taints: [{key: sku, value: gpu, effect: NoSchedule}]
  requirements:
  - {key: karpenter.sh/nodepool, operator: In, values: [kaito]}
  - {key: node.kubernetes.io/instance-type, operator: In, values: [Standard_NC24ads_A100_v4]}
  - {key: kubernetes.io/os, operator: In, values: [linux]}
  - {key: karpenter.azure.com/sku-name, operator: In, values: [Standard_NC24ads_A100_v4]}
  resources: {requests: {storage: 87Gi}}
"""
METADATA = workspace().metadata


def body(instance_type: str, cloud: Cloud, **annotations: str) -> dict[str, Any]:
    notes = {f"kaito.sh/{name.replace('_', '-')}": value for name, value in annotations.items()}
    options = KaitoOptions(cloud=cloud)
    request = node_request(instance_type, {"apps": "phi"}, "87Gi", notes, options)
    return node_claim_body("ws012345678", request, METADATA, cloud)


@pytest.mark.parametrize("name", ["Standard_NC24ads_A100_v4", "standard_nc24ADS_a100_v4"])
def test_a_claim_on_azure(name: str):
    assert body(name, Cloud.AZURE) == yaml.load(AZURE, Loader=yaml.CSafeLoader)


def test_a_claim_on_aws():
    spec = body("g5.xlarge", Cloud.AWS)["spec"]
    assert spec["nodeClassRef"] == {
        "name": "default",
        "kind": "EC2NodeClass",
        "group": "karpenter.k8s.aws",
    }
    assert spec["requirements"][-1] == {
        "key": "karpenter.k8s.aws/instance-gpu-count",
        "operator": "Gt",
        "values": ["0"],
    }


@pytest.mark.parametrize(
    ("family", "written"),
    [("AzureLinux", "azurelinux"), ("ubuntu", "ubuntu"), ("windows", "ubuntu")],
)
def test_the_image_family_is_that_of_the_annotation(family: str, written: str):
    found = body("Standard_NX", Cloud.AZURE, node_image_family=family)
    assert found["metadata"]["annotations"]["kaito.sh/node-image-family"] == written


def test_only_another_machine_or_other_labels_lead_to_another_set():
    first = node_request(
        "standard_nc24ads_a100_v4", {"b": "2", "a": "1"}, "87Gi", {}, KaitoOptions()
    )
    same = node_request(
        "Standard_NC24ads_A100_v4", {"a": "1", "b": "2"}, "99Gi", {}, KaitoOptions()
    )
    other = node_request(
        "Standard_NC48ads_A100_v4", {"a": "1", "b": "2"}, "87Gi", {}, KaitoOptions()
    )
    assert first.template == same.template == "Standard_NC24ads_A100_v4 a=1 b=2"
    assert other.template != first.template


def claim(*conditions: tuple[str, ...], node: str = "", **metadata: Any) -> NodeClaim:
    parts = [
        dict(zip(("type", "status", "reason", "message"), each, strict=False))
        | {"lastTransitionTime": "2026-01-01T00:05:00Z"}
        for each in conditions
    ]
    raw = {
        "metadata": {"name": "ws1", "uid": "c-1", **metadata},
        "status": {"nodeName": node, "conditions": parts},
    }
    return msgspec.convert(raw, NodeClaim)


STOCK_OUT = "all requested instance types were unavailable during launch"


@pytest.mark.parametrize(
    ("observed", "state"),
    [
        (claim(), ClaimState.PENDING),
        (claim(node="n"), ClaimState.READY),
        (claim(("Ready", "True")), ClaimState.READY),
        (claim(("Ready", "Unknown"), node="n"), ClaimState.PENDING),
        (claim(("Launched", "False", "LaunchFailed", "no quota")), ClaimState.PENDING),
        (claim(("Launched", "False", "LaunchFailed", STOCK_OUT)), ClaimState.FAILED),
        (claim(("Launched", "False", "InsufficientCapacity", "none")), ClaimState.FAILED),
        (claim(("Launched", "Unknown", "InsufficientCapacity", "none")), ClaimState.PENDING),
        (
            claim(("Ready", "True"), deletionTimestamp="2026-01-01T00:00:00Z"),
            ClaimState.TERMINATING,
        ),
    ],
)
def test_the_state_of_a_claim(observed: NodeClaim, state: ClaimState):
    assert claim_state(observed) is state


def test_the_cause_is_the_earliest_stage_and_errors_come_before_mere_waiting():
    waiting = ("Launched", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation")
    error = ("Registered", "Unknown", "NodeNotFound", "node not registered")
    later = ("Initialized", "False", "Later", "not yet")
    cause = first_cause(claim(later, error, waiting))
    assert cause is not None
    assert cause.reason == "NodeNotFound"
    benign = first_cause(claim(waiting))
    assert benign is not None
    assert benign.reason == "AwaitingReconciliation"
    assert first_cause(claim(("Launched", "True", "Launched", "done"))) is None


def test_a_long_message_is_cut_as_kaito_does():
    found = observed_claim(claim(("Launched", "Unknown", "LaunchFailed", "x" * 300)))
    assert found.message == "x" * 256 + "..."


def test_a_claim_has_kaitos_form_and_depends_on_all_that_tells_it_apart():
    names = {
        claim_name(uid, place, generation, attempt)
        for uid in ("u", "v")
        for place in range(3)
        for generation in range(3)
        for attempt in range(3)
    }
    assert len(names) == 54
    assert all(re.fullmatch(r"ws[0-9a-f]{9}", name) for name in names)


def test_the_same_claim_has_the_same_name_for_ever():
    assert claim_name("u", 0, 0, 0) == claim_name("u", 0, 0, 0) == "ws0782ad6ae"


def test_a_pool_has_kaitos_name():
    assert node_pool_name("default", "phi") == "default-phi"
    assert node_pool_name("a" * 31, "b" * 31) == f"{'a' * 31}-{'b' * 31}"
    assert node_pool_name("a" * 40, "b" * 40) == f"{'a' * 40}-bbbbbbbbbbbb-f5e4207a7"
