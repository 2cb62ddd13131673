"""The body of a NodePool, and whose an existing one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api.karpenter import ConfiguredNodeClass, NodeClassSettings, NodePool
from controller.kaito.api.options import KaitoOptions
from controller.kaito.presets.gpus import Cloud
from controller.kaito.provisioning.claims import Owner
from controller.kaito.provisioning.nodes import node_request
from controller.kaito.provisioning.pools import (
    node_pool_body,
    observed_pool,
)
from controller.kube.objects import ObjectMeta
from tests.kaito.support import workspace

GOLDEN: dict[str, Any] = yaml.load(
    Path(__file__).with_name("node_pools.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)
AZURE = NodeClassSettings(
    classes=(ConfiguredNodeClass("image-family-ubuntu", default=True), ConfiguredNodeClass("other"))
)
AWS = NodeClassSettings(
    *("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"),
    classes=(ConfiguredNodeClass("gpu", default=True),),
)
MACHINE = "Standard_NC24ads_A100_v4"
IN_SET = {"inferenceset.kaito.sh/created-by": "models"}
OTHER_CLASS = {"kaito.sh/node-class-name": "other"}


def body(
    instance_type: str = MACHINE,
    classes: NodeClassSettings = AZURE,
    cloud: Cloud = Cloud.AZURE,
    **metadata: Any,
) -> dict[str, Any]:
    meta = ObjectMeta(name="llama", namespace="prod", uid="u-1", **metadata)
    request = node_request(
        instance_type, {"apps": "llm"}, "87Gi", meta.annotations or {}, KaitoOptions(cloud=cloud)
    )
    return node_pool_body(meta, request, 2, classes)


def without_own_marks(found: dict[str, Any]) -> dict[str, Any]:
    """The body as Kaito writes it; the marks that only Manta writes must be there."""
    metadata, template = found["metadata"], found["spec"]["template"]["metadata"]
    assert metadata.pop("annotations").keys() == {"manta.dev/node-template"}
    assert metadata["labels"].pop(OWNER_UID) == template["labels"].pop(OWNER_UID) == "u-1"
    return found


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("azure", body()),
        ("azure", body(MACHINE.lower())),
        ("inferenceSet", body(labels=IN_SET, annotations=OTHER_CLASS)),
        ("aws", body("g5.xlarge", AWS, Cloud.AWS)),
    ],
    ids=["azure", "in any case", "of an InferenceSet, of another class", "aws"],
)
def test_a_pool_is_the_one_that_kaito_writes(case: str, found: dict[str, Any]):
    assert without_own_marks(found) == GOLDEN[case]


NAMES = {
    "karpenter.kaito.sh/workspace-name": "phi",
    "karpenter.kaito.sh/workspace-namespace": "default",
}
ANOTHER = NAMES | {"karpenter.kaito.sh/workspace-namespace": "other"}
BEFORE, AFTER = "2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z"


def pool(spec: dict[str, Any] | None = None, **more: Any) -> NodePool:
    metadata = {"name": "default-phi", "uid": "p-1", **more.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, "spec": spec or {}, **more}, NodePool)


@pytest.mark.parametrize(
    ("labels", "created", "owner"),
    [
        (NAMES | {OWNER_UID: "u-1"}, BEFORE, Owner.THIS),
        ({OWNER_UID: "u-1"}, BEFORE, Owner.THIS),
        (NAMES | {OWNER_UID: "u-0"}, AFTER, Owner.EARLIER),
        (NAMES, AFTER, Owner.THIS),
        (NAMES, BEFORE, Owner.EARLIER),
        (ANOTHER, AFTER, Owner.OTHER),
        (ANOTHER | {OWNER_UID: "u-2"}, AFTER, Owner.OTHER),
        ({}, AFTER, Owner.OTHER),
    ],
)
def test_a_pool_belongs_to_the_workspace_that_it_names(
    labels: dict[str, str], created: str, owner: Owner
):
    found = pool(metadata={"labels": labels, "creationTimestamp": created})
    assert observed_pool(found, workspace().metadata).owner is owner


def test_a_pool_of_another_owner_says_whose_it_is():
    meta = workspace().metadata
    assert observed_pool(pool(metadata={"labels": ANOTHER}), meta).owner_text == (
        "Workspace other/phi"
    )
    assert observed_pool(pool(), meta).owner_text == "another owner"


def test_what_is_read_of_a_pool():
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [MACHINE]}
    spec = {"replicas": 3, "template": {"spec": {"requirements": [requirement]}}}
    ready = {"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "no"}
    found = observed_pool(
        pool(spec, status={"conditions": [ready]}, metadata={"resourceVersion": "7"}),
        workspace().metadata,
    )
    assert (found.replicas, found.resource_version) == (3, "7")
    assert (found.reason, found.message) == ("NodeClassNotReady", "no")
    assert found.is_for(MACHINE.upper())
    assert not found.is_for("Standard_NC48ads_A100_v4")
    assert observed_pool(pool(), workspace().metadata).is_for("anything")


@pytest.mark.parametrize(
    "mark", ["odd", "Standard_NC48ads_A100_v4 apps=llm", f"{MACHINE} apps=other", f"{MACHINE} x=y"]
)
def test_a_mark_that_is_not_of_the_pools_own_template_is_none(mark: str):
    created, meta = body(), ObjectMeta(name="llama", namespace="prod", uid="u-1")
    created["spec"]["template"]["metadata"]["labels"] |= {"others": "x"}
    assert observed_pool(msgspec.convert(created, NodePool), meta).template == f"{MACHINE} apps=llm"
    created["metadata"]["annotations"] = {"manta.dev/node-template": mark}
    assert observed_pool(msgspec.convert(created, NodePool), meta).template == ""
