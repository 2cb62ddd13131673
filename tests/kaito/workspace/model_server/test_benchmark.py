"""The benchmark of a Workspace's server in its status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kaito.api import labels
from controller.kaito.lookups.background import Answered, LookupState, Unanswered
from controller.kaito.lookups.benchmark import BenchmarkLog, Measurement
from controller.kaito.workloads.pods import BASE_TAG, base_image
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kaito.workspace.watches import PODS
from controller.kube.objects import Pod, StatefulSet
from controller.runtime.plan import Failure, JsonPatch
from tests.kaito.support import inference, raw_workspace, tuning, workspace
from tests.kaito.workspace.given import NOW, Given, own, writes
from tests.kaito.workspace.pods import container, pod

IMAGE = "example.com/server:1"
LOG = BenchmarkLog("default", "phi-0", "uid-phi-0", "phi")
CONFIG = {"durationSec": "60", "inputTokens": "2048"}
MEASURED = Answered(Measurement("12345.67", CONFIG))
NOT_FOUND = Unanswered("BenchmarkFailed", "there is no KAITO_BENCHMARK_RESULT")
RECORDED = {
    "type": "BenchmarkCompleted",
    "status": "True",
    "reason": "BenchmarkCompleted",
    "message": "benchmark result has been recorded",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
OLD = {"metrics": {"peakTokensPerMinute": {"value": "1"}}}


class Known:
    """What is known of questions: for each log the same."""

    def __init__(self, found: LookupState[Measurement] | None) -> None:
        self.found = found

    def benchmark(self, log: BenchmarkLog) -> LookupState[Measurement] | None:
        return self.found


def measured_server(
    ready: int = 1, image: str = IMAGE, *, probe: bool = True, **marks: str
) -> StatefulSet:
    command = ["python3", "/workspace/vllm/benchmark_entrypoint.py"]
    main: dict[str, Any] = {"name": "phi", "image": image, "command": ["/bin/sh", "-c", "x"]}
    if probe:
        main["startupProbe"] = {"exec": {"command": command}}
    raw = {
        "metadata": own(annotations=marks or {labels.REVISION: "1"}),
        "spec": {"replicas": 1, "template": {"spec": {"containers": [main]}}},
        "status": {"replicas": 1, "readyReplicas": ready},
    }
    return msgspec.convert(raw, StatefulSet)


def ready_pod(image: str = IMAGE, restarts: int = 0, *, ready: bool = True) -> Pod:
    status = {
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [container(ready=True, restarts=restarts)],
    }
    spec = {"containers": [{"name": "phi", "image": image}]}
    raw = msgspec.to_builtins(pod(**status))
    return msgspec.convert({**raw, "spec": spec}, type(pod()))


def serving(found: LookupState[Measurement] | None = None, **changes: Any) -> Given:
    """A Workspace that serves, and what its log says."""
    given = Given(workspace(**changes))
    given.kind = WorkspaceKind(lookups=Known(found))  # type: ignore[arg-type]
    given.with_nodes().with_revision().with_services().with_server(measured_server())
    given.reads.add(PODS, ready_pod())
    return given


def performance(given: Given) -> Any:
    status = given.plan().status
    assert status is not None
    return status.wanted.get("performance", "left alone")


def test_a_server_that_was_not_measured_yet_serves_all_the_same():
    for found in (None, NOT_FOUND):
        given = serving(found)
        assert given.condition("WorkspaceSucceeded")[0] == "True"
        assert given.state == "Ready"
    assert serving().condition("BenchmarkCompleted") == ("", "", "")


def test_a_measurement_is_recorded_in_kaitos_words():
    given = serving(MEASURED)
    assert performance(given) == {
        "metrics": {
            "peakTokensPerMinute": {
                "description": "stress/high-concurrency",
                "value": "12345.67",
                "unit": "tokens/min",
                "config": {
                    **CONFIG,
                    "engine": "vllm",
                    "engineVersion": "0.25.1",
                    "quantization": "",
                },
            }
        }
    }
    assert given.condition("BenchmarkCompleted") == (
        "True",
        "BenchmarkCompleted",
        "benchmark result has been recorded",
    )


def test_a_failure_is_said_and_asked_again():
    given = serving(NOT_FOUND)
    assert given.condition("BenchmarkCompleted") == ("False", NOT_FOUND.reason, NOT_FOUND.message)
    assert performance(given) == "left alone"
    assert given.plan().subscriptions == (LOG,)


def test_what_kaito_has_given_up_is_measured_after_all():
    failed = {**RECORDED, "status": "False", "reason": "BenchmarkFailed"}
    given = serving(MEASURED, status={"state": "NotReady", "conditions": [failed]})
    assert given.state == "Ready"
    assert given.condition("BenchmarkCompleted")[0] == "True"


def test_a_recorded_result_is_that_of_the_present_generation():
    edited = raw_workspace(status={"conditions": [RECORDED]})
    edited["metadata"]["generation"] = 5
    given = Given(msgspec.convert(edited, type(workspace())))
    (found,) = [
        each
        for each in given.plan().status.wanted["conditions"]  # type: ignore[union-attr]
        if each["type"] == "BenchmarkCompleted"
    ]
    assert (found["observedGeneration"], found["status"]) == (5, "True")
    assert found["lastTransitionTime"] == RECORDED["lastTransitionTime"]


@pytest.mark.parametrize(
    "given",
    [
        serving(annotations={labels.DISABLE_BENCHMARK: "true"}),
        serving(annotations={labels.RUNTIME: "transformers"}, inference=inference("phi-4")),
        serving(inference={"template": {"spec": {"containers": [{"name": "x"}]}}}),
        serving().with_server(measured_server(probe=False)),
        serving().with_server(measured_server(ready=0)),
        Given(workspace(tuning=tuning())).with_nodes(),
    ],
    ids=["switched off", "transformers", "template", "before 0.10", "not ready", "tuning"],
)
def test_what_is_not_measured_is_not_looked_up(given: Given):
    assert given.plan().subscriptions == ()


# another image


def upgraded() -> Given:
    own_labels = {labels.UPGRADE_TO: BASE_TAG}
    status = {"performance": OLD, "conditions": [RECORDED]}
    return serving(MEASURED, labels=own_labels, status=status)


def test_with_another_image_the_result_of_the_old_one_goes():
    given = upgraded()
    assert performance(given) is None
    assert given.condition("BenchmarkCompleted") == ("", "", "")
    given.with_server(measured_server(image=base_image(given.observe().options)))
    assert performance(given) == "left alone"


@pytest.mark.parametrize(("unknown", "kept"), [(False, True), (True, False)])
def test_while_the_other_image_is_refused_the_result_stays(unknown: bool, kept: bool):
    given = upgraded()
    plan, seen = given.plan(), given.observe()
    (patch,) = [each for each in writes(plan) if isinstance(each, JsonPatch)]
    failed = (Failure(patch, "Forbidden", "no", unknown=unknown),)
    status = given.kind.status_after(seen, plan, failed, NOW)
    assert status is not None
    assert ("performance" not in status.wanted) is kept
