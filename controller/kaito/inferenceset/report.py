"""The part of an InferenceSet's status that is about its replicas, in Kaito's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.kaito.api import labels
from controller.kaito.api.message import cut
from controller.kaito.api.options import Runtime
from controller.kaito.workloads import engine_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.apimachinery.conditions import ConditionStatus
    from controller.kaito.api.inferenceset import InferenceSet, InferenceSetSpec
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.inferenceset.replicas import Replica

SET_READY: Final = "InferenceSetReady"
BENCHMARK: Final = "BenchmarkCompleted"
AGGREGATED_METRIC: Final = "aggregatedPeakTokensPerMinute"


@dataclass(frozen=True, slots=True)
class SetCondition:
    """One condition, without the times that it has in the status."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetReport:
    """The status of a set.

    Attributes:
        replicas: desired number; autoscalers compare it with their own.
        ready_replicas: number of replicas that serve.
        selector: of the pods, for autoscalers.
        metrics: measurements of all replicas together, by name; those of others are left alone.
        conditions: those that depend on the replicas.
    """

    replicas: int
    ready_replicas: int
    selector: str
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    conditions: tuple[SetCondition, ...] = ()


def report(
    inference_set: InferenceSet,
    spec: InferenceSetSpec,
    replicas: Sequence[Replica],
    options: KaitoOptions,
) -> SetReport:
    """Return the status that follows from the replicas."""
    annotations = inference_set.metadata.annotations or {}
    runtime = options.runtime(annotations)
    is_measured = (
        annotations.get(labels.DISABLE_BENCHMARK) != "true"
        and runtime is Runtime.VLLM
        and "preset" in spec.template.inference
    )
    ready = [each for each in replicas if each.ready]
    measured = [each for each in ready if each.peak] if is_measured else []
    conditions = [_ready_condition(len(ready), spec.replicas, replicas)]
    if is_measured:
        conditions.append(_benchmark_condition(len(measured), spec.replicas))
    return SetReport(
        spec.replicas,
        len(ready),
        f"{labels.CREATED_BY_INFERENCE_SET}={inference_set.metadata.name}",
        {AGGREGATED_METRIC: _metric(measured, runtime)} if measured else {},
        tuple(conditions),
    )


def _ready_condition(ready: int, desired: int, replicas: Sequence[Replica]) -> SetCondition:
    if ready == desired:
        return SetCondition(SET_READY, "True", "inferencesetReady", "inferenceset is ready")
    message = f"inferenceset is not ready, {ready}/{desired} replicas are ready"
    causes = sorted((each.name, each.cause) for each in replicas if each.cause and not each.ready)
    for name, cause in causes[:1]:
        message = cut(f"{message}; Workspace {name}: {cause}")
    return SetCondition(SET_READY, "False", "inferencesetNotReady", message)


def _benchmark_condition(measured: int, desired: int) -> SetCondition:
    message = f"{measured}/{desired} replicas benchmarked"
    if measured == desired and desired > 0:
        return SetCondition(BENCHMARK, "True", "BenchmarkCompleted", message)
    return SetCondition(BENCHMARK, "False", "BenchmarkPending", message)


def _metric(measured: Sequence[Replica], runtime: Runtime) -> dict[str, Any]:
    return {
        "description": "stress/high-concurrency",
        "value": f"{sum(each.peak for each in measured):.2f}",
        "unit": "tokens/min",
        "config": engine_metadata(runtime),
    }
