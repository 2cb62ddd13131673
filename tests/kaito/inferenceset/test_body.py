"""The Workspaces of an InferenceSet, and what its status says of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.apimachinery.validation import Problem
from controller.kaito.api.inferenceset import InferenceSet, InferenceSetSpec, validate_inference_set
from controller.kaito.api.labels import CREATED_BY_INFERENCE_SET as CREATED_BY
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.workspace import Workspace
from controller.kaito.inferenceset.observe import InferenceSetObservation, Replica, replica
from controller.kaito.inferenceset.plan import workspace_body
from controller.kaito.inferenceset.status import current_status
from tests.kaito.inferenceset.given import NOW
from tests.kaito.support import inference, inference_set, workspace

OPTIONS = KaitoOptions()
OWN_NODES = KaitoOptions(provisioner=Provisioner.OWN_NODES, mig=True)
TEMPLATE = {
    "metadata": {
        "labels": {"own": "label", CREATED_BY: "forged"},
        "annotations": {"kaito.sh/performance-mode": "throughput"},
    },
    "resource": {"instanceType": "Standard_NC24ads_A100_v4"},
    "inference": inference(adapters=[{"source": {"name": "one", "image": "example.com/one:1"}}]),
}


def made(found: InferenceSet, options: KaitoOptions = OPTIONS) -> dict[str, Any]:
    return workspace_body(found, spec_of(found, options), "models-bcdfg", options)


def spec_of(found: InferenceSet, options: KaitoOptions = OPTIONS) -> InferenceSetSpec:
    spec = validate_inference_set(found, options)
    assert not isinstance(spec, Problem), spec
    return spec


def labelled(found: InferenceSet, **metadata: Any) -> InferenceSet:
    changed = msgspec.structs.replace(found.metadata, **metadata)
    return msgspec.structs.replace(found, metadata=changed)


def test_a_replica_is_the_workspace_that_kaito_creates():
    assert made(inference_set(template=TEMPLATE)) == {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "metadata": {
            "name": "models-bcdfg",
            "namespace": "default",
            "labels": {"own": "label", "inferenceset.kaito.sh/created-by": "models"},
            "annotations": {"kaito.sh/performance-mode": "throughput"},
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
        "resource": {
            "labelSelector": {"matchLabels": {"apps": "phi"}},
            "instanceType": "Standard_NC24ads_A100_v4",
        },
        "inference": TEMPLATE["inference"],
    }


def test_a_replica_on_own_nodes_has_its_part_of_a_gpu_and_no_instance_type():
    partition = {"mode": "mig", "profile": "2g.20gb"}
    template = {"resource": {"partition": partition}, "inference": inference()}
    body = made(inference_set(template=template), OWN_NODES)
    assert body["resource"] == {
        "labelSelector": {"matchLabels": {"apps": "phi"}},
        "partition": partition,
    }
    assert "annotations" not in body["metadata"]


def test_labels_of_roles_and_the_end_of_measuring_come_from_the_set():
    found = labelled(
        inference_set(),
        labels={"kaito.sh/inference-role": "decode", "other": "label"},
        annotations={"kaito.sh/disable-benchmark": "true", "other": "note"},
    )
    metadata = made(found)["metadata"]
    assert metadata["labels"] == {
        "kaito.sh/inference-role": "decode",
        "inferenceset.kaito.sh/created-by": "models",
    }
    assert metadata["annotations"] == {"kaito.sh/disable-benchmark": "true"}


def with_status(status: str, value: object = None) -> Workspace:
    metrics = {"peakTokensPerMinute": {"value": value}} if value is not None else None
    condition = {"type": "WorkspaceSucceeded", "status": status}
    return workspace(
        status={"conditions": [condition], "performance": {"metrics": metrics} if metrics else None}
    )


@pytest.mark.parametrize(
    ("found", "ready", "peak"),
    [
        (with_status("True", "1234.5"), True, 1234.5),
        (with_status("False", "10"), False, 10),
        (with_status("True"), True, 0),
        (with_status("True", "much"), True, 0),
        (with_status("True", "-1"), True, 0),
        (with_status("True", "nan"), True, 0),
        (with_status("True", 5), True, 0),
        (workspace(), False, 0),
    ],
)
def test_a_replica_serves_when_its_workspace_has_succeeded(
    found: Workspace, ready: bool, peak: float
):
    assert (replica(found).ready, replica(found).peak) == (ready, peak)


def status_of(found: InferenceSet, replicas: list[Replica]) -> dict[str, Any]:
    seen = InferenceSetObservation(found, spec_of(found), replicas=tuple(replicas))
    return dict(current_status(seen, NOW).wanted)


def measured(*peaks: float) -> list[Replica]:
    return [Replica(f"r-{number}", ready=True, peak=peak) for number, peak in enumerate(peaks)]


@pytest.mark.parametrize(
    ("desired", "replicas", "total", "benchmark"),
    [
        (2, measured(100000, 200000), "300000.00", ("True", "2/2 replicas benchmarked")),
        (2, measured(100000, 0), "100000.00", ("False", "1/2 replicas benchmarked")),
        (2, measured(0, 0), None, ("False", "0/2 replicas benchmarked")),
        (3, measured(100000, 200000), "300000.00", ("False", "2/3 replicas benchmarked")),
        (0, [], None, ("False", "0/0 replicas benchmarked")),
        (1, [Replica("r", peak=5)], None, ("False", "0/1 replicas benchmarked")),
    ],
)
def test_measurements_are_added_up_as_kaito_does(
    desired: int, replicas: list[Replica], total: str | None, benchmark: tuple[str, str]
):
    found = inference_set(replicas=desired)
    status = status_of(found, replicas)
    measured = status["performance"] or {"metrics": {"aggregatedPeakTokensPerMinute": {}}}
    assert measured["metrics"]["aggregatedPeakTokensPerMinute"].get("value") == total
    condition = status["conditions"][1]
    assert (condition["type"], condition["status"], condition["message"]) == (
        "BenchmarkCompleted",
        *benchmark,
    )


def test_a_set_that_is_not_measured_reports_no_measurement():
    disabled = labelled(inference_set(), annotations={"kaito.sh/disable-benchmark": "true"})
    status = status_of(disabled, measured(5, 5))
    assert [each["type"] for each in status["conditions"]] == ["InferenceSetReady"]
    assert status["performance"] is None
