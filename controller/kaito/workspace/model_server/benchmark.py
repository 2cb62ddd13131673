"""The benchmark of a model server: the log that has its result, and its part of the status.

A result is recorded once (KAI-22); only a new image of the server removes it. A server serves
whether it was measured or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import is_true
from controller.kaito.api import labels
from controller.kaito.api.options import Runtime
from controller.kaito.lookups import Answered, BenchmarkLog, Unanswered
from controller.kaito.provisioning.conditions import ConditionFacts
from controller.kaito.workloads import engine_metadata, is_benchmarked, server_image
from controller.kaito.workspace.model_server.pod_causes import is_ready
from controller.kaito.workspace.model_server.serving import serves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controller.kaito.lookups import LookupState, Measurement
    from controller.kaito.workspace.goal import Goal
    from controller.kube.objects import ObjectMeta, Pod, StatefulSet

BENCHMARK_COMPLETED: Final = "BenchmarkCompleted"
PEAK_METRIC: Final = "peakTokensPerMinute"


def benchmark_log(
    workspace: ObjectMeta,
    goal: Goal,
    server: StatefulSet | None,
    pods: Iterable[Pod],
    conditions: Sequence[Mapping[str, Any]],
) -> BenchmarkLog | None:
    """Return the log with a result that is not recorded yet; None if there is none.

    Args:
        workspace: metadata of a Workspace.
        goal: goal of the Workspace.
        server: its StatefulSet.
        pods: pods of its StatefulSet.
        conditions: conditions of its status.
    """
    switched_off = (workspace.annotations or {}).get(labels.DISABLE_BENCHMARK) == "true"
    if server is None or switched_off or is_true(conditions, BENCHMARK_COMPLETED):
        return None
    is_preset = goal.spec.inference is not None and goal.preset is not None
    if not is_preset or goal.runtime is not Runtime.VLLM:
        return None
    if not is_benchmarked(server) or not serves(server):
        return None
    leader = next((each for each in pods if each.metadata.name == f"{workspace.name}-0"), None)
    return _log_of(leader, server) if leader is not None else None


def _log_of(leader: Pod, server: StatefulSet) -> BenchmarkLog | None:
    """Return the log of the first pod; None while it is not ready, or runs an older image."""
    names = [each.name for each in leader.spec.containers]
    container = server.metadata.name if server.metadata.name in names else next(iter(names), "")
    images = {each.name: each.image for each in leader.spec.containers}
    if not is_ready(leader) or images.get(container) != server_image(server):
        return None
    statuses = leader.status.container_statuses
    restarts = next((each.restart_count for each in statuses if each.name == container), 0)
    meta = leader.metadata
    return BenchmarkLog(meta.namespace, meta.name, meta.uid, container, restarts)


def benchmark_condition(
    found: LookupState[Measurement] | None, conditions: Sequence[Mapping[str, Any]]
) -> ConditionFacts | None:
    """Return the condition that says whether the result is recorded; None to leave it as it is.

    Args:
        found: what was found in the log.
        conditions: conditions of the status.
    """
    if isinstance(found, Unanswered):
        return ConditionFacts(
            BENCHMARK_COMPLETED, is_true=False, reason=found.reason, message=found.message
        )
    if found is None and not is_true(conditions, BENCHMARK_COMPLETED):
        return None
    return ConditionFacts(
        BENCHMARK_COMPLETED,
        is_true=True,
        reason="BenchmarkCompleted",
        message="benchmark result has been recorded",
    )


def performance(found: LookupState[Measurement] | None, quantization: str) -> dict[str, Any] | None:
    """Return `status.performance`; None to leave it unchanged.

    Args:
        found: what was found in the log.
        quantization: quantization of the model.
    """
    if not isinstance(found, Answered):
        return None
    measured = found.answer
    metric = {
        "description": "stress/high-concurrency",
        "value": measured.tokens_per_minute,
        "unit": "tokens/min",
        "config": {
            **measured.config,
            **engine_metadata(Runtime.VLLM),
            "quantization": quantization,
        },
    }
    return {"metrics": {PEAK_METRIC: metric}}
