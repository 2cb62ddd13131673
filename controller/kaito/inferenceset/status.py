"""The status of an InferenceSet: counts, measurements and conditions, with Kaito's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from controller.apimachinery.conditions import (
    FEATURES_SUPPORTED,
    OBSERVATION_IN_DOUBT,
    READY,
    ConditionSet,
    rfc3339,
    tells,
    verdicts,
)
from controller.apimachinery.custom_object import conditions_of, dig, mapping
from controller.apimachinery.patches import difference
from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.inference_pool import set_pool_condition
from controller.kaito.api.options import Runtime
from controller.kaito.api.status import (
    BENCHMARK_COMPLETED,
    ConditionFacts,
    conditions_before,
    cut,
    throughput,
    what_failed,
)
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.observe import InferenceSetObservation, Replica
from controller.kaito.workloads.pods import BASE_TAG, engine_metadata
from controller.kube.resources import INSTALL_CRDS
from controller.runtime.definitions import set_fields_known, unknown_field_events
from controller.runtime.plan import Event, Failure, StatusPatch, Target
from controller.runtime.reasons import refused_create

SET_READY: Final = "InferenceSetReady"
AGGREGATED_METRIC: Final = "aggregatedPeakTokensPerMinute"


def _ready_condition(
    ready: int, desired: int, replicas: Sequence[Replica], cause: str
) -> ConditionFacts:
    if ready == desired:
        reason, message = "inferencesetReady", "inferenceset is ready"
    else:
        reason = FAILED if cause else "inferencesetNotReady"
        message = f"inferenceset is not ready, {ready}/{desired} replicas are ready"
        waiting = [each for each in replicas if each.cause and not each.ready]
        if waiting:
            first = min(waiting, key=lambda each: each.name)
            message = cut(f"{message}; Workspace {first.name}: {first.cause}")
    message = f"{message}; {cause}" if cause else message
    return ConditionFacts(SET_READY, ready == desired, reason, message)


def _benchmark_condition(measured: int, desired: int) -> ConditionFacts:
    is_done = measured == desired > 0
    reason = "BenchmarkCompleted" if is_done else "BenchmarkPending"
    message = f"{measured}/{desired} replicas benchmarked"
    return ConditionFacts(BENCHMARK_COMPLETED, is_done, reason, message)


Status = dict[str, Any]

FAILED: Final = "inferencesetFailed"
"""Kaito's reason while something keeps a set from getting its replicas."""

_UPGRADE_GATE_OFF: Final = (
    "accepted, but without effect while the feature gate enableBaseImageAutoUpgrade is off: "
    "spec.autoUpgrade"
)
_NOT_SERVED: Final = (
    "the API server has no Workspaces: install their definition "
    f"({INSTALL_CRDS.replace('crds', 'crds --kind workspace')})"
)


def current_status(
    seen: InferenceSetObservation, now: datetime, failures: tuple[Failure, ...] = ()
) -> StatusPatch:
    """Return the wanted status of a set that is not being deleted."""
    conditions = conditions_before(seen.inference_set, now)
    conditions.remove(READY)  # only the runtime sets it, while the kind itself fails
    doubt = "; ".join(seen.consistency_warnings)
    conditions.set_if(OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", doubt)
    set_fields_known(conditions, seen.unknown_fields)
    if isinstance(seen.goal, Problem):
        conditions.set(SET_READY, "False", seen.goal.reason, seen.goal.message)
        cause = seen.goal.message
        has_begun = bool(seen.replicas) or "readyReplicas" in seen.status
        ready = sum(each.ready for each in seen.replicas)
        wanted: Status = {"readyReplicas": ready} if has_begun else {}
    else:
        cause = _cause(seen, failures)
        wanted = _counts_and_conditions(seen, cause, conditions, now)
        set_pool_condition(conditions, seen.inference_pool)
        policy = seen.goal.auto_upgrade
        is_held = policy and policy.enabled and not seen.options.auto_upgrade
        held = _UPGRADE_GATE_OFF if is_held else ""
        conditions.set_if(FEATURES_SUPPORTED, "False", "FeatureGateOff", held)
    wanted["conditions"] = conditions.as_list()
    events = tuple(_events(seen, cause))
    urgent = bool(events) or _is_urgent(seen.status, wanted)
    return StatusPatch(wanted, urgent=urgent, events=events)


def _counts_and_conditions(
    seen: InferenceSetObservation, cause: str, conditions: ConditionSet, now: datetime
) -> Status:
    desired, metric = seen.spec.replicas, None
    ready = [each for each in seen.replicas if each.ready]
    _ready_condition(len(ready), desired, seen.replicas, cause).set_in(conditions)
    if _is_measured(seen):
        measured = [each for each in ready if each.peak]
        total = f"{sum(each.peak for each in measured):.2f}"
        metric = throughput(total, engine_metadata(Runtime.VLLM)) if measured else None
        _benchmark_condition(len(measured), desired).set_in(conditions)
    else:
        conditions.remove(BENCHMARK_COMPLETED)
    return {
        "replicas": desired,
        "readyReplicas": len(ready),
        "selector": f"{labels.CREATED_BY_INFERENCE_SET}={seen.inference_set.metadata.name}",
        **_performance(seen.status, metric),
        **_upgrade(seen, now),
    }


def _is_measured(seen: InferenceSetObservation) -> bool:
    annotations = seen.inference_set.metadata.annotations or {}
    if annotations.get(labels.DISABLE_BENCHMARK) == "true":
        return False
    is_vllm = seen.options.runtime(annotations) is Runtime.VLLM
    return is_vllm and "preset" in seen.spec.template.inference


def _upgrade(seen: InferenceSetObservation, now: datetime) -> Status:
    """Return how many replicas have an old image or are not ready yet with the new one.

    The time is written when there is none any more.
    """
    stored = mapping(seen.status.get("autoUpgrade"))
    if seen.spec.upgrade_policy(seen.options) is None:
        return {"autoUpgrade": {"numDriftedWorkspaces": None}} if stored else {}
    count = sum(
        each.on_old_image or (each.upgraded_to == BASE_TAG and not each.has_ready_server)
        for each in seen.replicas
        if not each.terminating
    )
    found: Status = {"numDriftedWorkspaces": count}
    if not count and stored.get("numDriftedWorkspaces"):
        found["lastSuccessfulUpgradeTime"] = rfc3339(now)
    return {"autoUpgrade": found}


def _performance(status: Status, metric: Mapping[str, Any] | None) -> Status:
    """Return the measurement of all replicas together; metrics of others are left unchanged."""
    present = mapping(dig(status, "performance", "metrics"))
    if metric is not None or present.keys() - {AGGREGATED_METRIC}:
        return {"performance": {"metrics": {AGGREGATED_METRIC: metric}}}
    return {"performance": None}


def _cause(seen: InferenceSetObservation, failures: tuple[Failure, ...]) -> str:
    """Return the first cause that keeps the set from its replicas; empty if none is known."""
    if seen.workspaces is None:
        return _NOT_SERVED
    for failure in failures:
        if not failure.may_resolve:
            return what_failed(failure)
    for name, error in seen.missing.refused.items():
        target = Target(WORKSPACES, seen.inference_set.metadata.namespace, name)
        return what_failed(refused_create(target, error))
    for name, conflict in seen.missing.taken.items():
        owned = f"there is one of this name that {conflict}; delete it"
        return f"cannot create Workspace {name}: {owned}"
    for name, reason in seen.unreadable.items():
        return f"nothing is created or deleted while Workspace {name} cannot be read: {reason}"
    return ""


def _events(seen: InferenceSetObservation, cause: str) -> Iterator[Event]:
    """Yield events about unknown fields and a cause that no stored condition has reported yet."""
    yield from unknown_field_events(conditions_of(seen.inference_set), seen.unknown_fields)
    if not cause or any(tells(each, cause) for each in conditions_of(seen.inference_set)):
        return
    if isinstance(seen.goal, Problem):
        yield Event("Warning", seen.goal.reason, "Validate", cause)
    else:
        yield Event("Warning", "InferenceSetFailed", "Reconcile", cause, quotes=True)


def _is_urgent(status: Status, wanted: Status) -> bool:
    """Return whether more than texts has changed."""
    changed = difference(status, wanted).keys() - {"conditions"}
    return bool(changed) or verdicts(status) != verdicts(wanted)
