"""What the statuses of both kinds share: conditions, causes, failed writes, metrics by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.apimachinery.conditions import ConditionSet, is_true
from controller.apimachinery.custom_object import CustomObject, conditions_of, dig, status_of
from controller.kaito.api.inferenceset import InferenceSet
from controller.kaito.api.workspace import Workspace
from controller.runtime import reasons
from controller.runtime.metrics import StateCollector
from controller.runtime.plan import Failure, StatusPatch, verb_of
from controller.runtime.reasons import refusal_of, remedy_of, with_remedy


class Cause(Struct, frozen=True):
    """The reason why something gets no further.

    Attributes:
        reason: in one word; empty while only time is needed.
        message: in words, with the remedy if a person has to act.
    """

    reason: str
    message: str


class ConditionFacts(Struct, frozen=True):
    """One condition, but for its times."""

    type: str
    is_true: bool
    reason: str
    message: str

    def set_in(self, conditions: ConditionSet) -> None:
        """Set it among the conditions of an object."""
        status = "True" if self.is_true else "False"
        conditions.set(self.type, status, self.reason, self.message)


NODE_CLAIM_READY: Final = "NodeClaimReady"
NODES_READY: Final = "NodesReady"
RESOURCE_READY: Final = "ResourceReady"
INFERENCE_READY: Final = "InferenceReady"
WORKSPACE_SUCCEEDED: Final = "WorkspaceSucceeded"
BENCHMARK_COMPLETED: Final = "BenchmarkCompleted"
PEAK_METRIC: Final = "peakTokensPerMinute"


def throughput(tokens_per_minute: str, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of a benchmark as the status has it."""
    return {
        "description": "stress/high-concurrency",
        "value": tokens_per_minute,
        "unit": "tokens/min",
        "config": config,
    }


def conditions_before(obj: CustomObject, now: datetime) -> ConditionSet:
    """Return the stored conditions of an object, to be changed."""
    return ConditionSet(conditions_of(obj), obj.metadata.generation, now)


def deletion_status(
    obj: CustomObject, now: datetime, type_: str, reason: str, message: str
) -> StatusPatch:
    """Return the status of an object that is being deleted: one condition."""
    conditions = conditions_before(obj, now)
    conditions.set(type_, "True", reason, message)
    return StatusPatch({"conditions": conditions.as_list()})


_LONGEST: Final = 256


def cut(text: str) -> str:
    """Return the text, cut after 256 bytes as Kaito does."""
    encoded = text.encode()
    if len(encoded) <= _LONGEST:
        return text
    return f"{encoded[:_LONGEST].decode(errors='ignore')}..."


_REMEDIES: Final = {
    reasons.ADMISSION_DENIED: "change the object accordingly, or ask for another policy",
    reasons.OBJECT_INVALID: "correct the field that leads to this",
    reasons.OBJECT_TOO_LARGE: "make what it is made from smaller",
}


def failure_reason(failure: Failure) -> str:
    """Return the server's reason, or that of the Ray kinds for a webhook that does not answer."""
    refusal = refusal_of(failure)
    return refusal.name if refusal is reasons.ADMISSION_UNAVAILABLE else failure.reason


def failure_event(failure: Failure) -> str:
    """Return the reason of an event: `FailedToCreateStatefulSet`."""
    return f"FailedTo{verb_of(failure.write).capitalize()}{failure.write.target.resource.kind}"


def what_failed(failure: Failure) -> str:
    """Return a sentence about a failed write, with the server's words and the next step."""
    target = failure.write.target
    doubt = "; it is not known whether it was carried out" if failure.unknown else ""
    return with_remedy(
        f"cannot {verb_of(failure.write)} {target.resource.kind} {target.name}: "
        f"{failure.message}{doubt}",
        remedy_of(failure, _REMEDIES),
    )


_FAILED: Final = frozenset({"Failed", "NotReady"})
"""States of a tuning that has failed, and of a server that no longer serves."""

_PHASES: Final = ("succeeded", "error", "pending", "deleting")


class WorkspaceCollector(StateCollector[Iterable[Workspace]]):
    """Collects `kaito_workspace_*` from the cache when scraped.

    On purpose different: Kaito counts a Workspace that still waits for its nodes as an error.
    """

    def metrics(self, current: Iterable[Workspace], /) -> Iterable[Metric]:
        """Return the numbers of Workspaces by phase and by preset."""
        workspaces = list(current)
        presets = GaugeMetricFamily(
            "kaito_workspace_preset_count", "Workspaces by their preset", labels=["preset_name"]
        )
        names = (
            dig(each.inference, "preset", "name") or dig(each.tuning, "preset", "name")
            for each in workspaces
        )
        for name, number in sorted(Counter(str(name) for name in names if name).items()):
            presets.add_metric([name], number)
        phases = Counter(_phase(each, WORKSPACE_SUCCEEDED) for each in workspaces)
        return _by_phase("kaito_workspace_count", "Workspaces by phase", phases), presets


class InferenceSetCollector(StateCollector[Iterable[InferenceSet]]):
    """Collects `kaito_inferenceset_count`."""

    def metrics(self, current: Iterable[InferenceSet], /) -> Iterable[Metric]:
        """Return the numbers of InferenceSets by phase."""
        phases = Counter(_phase(each, "InferenceSetReady") for each in current)
        return (_by_phase("kaito_inferenceset_count", "InferenceSets by phase", phases),)


def _phase(each: Workspace | InferenceSet, verdict: str) -> str:
    """Return the phase in Kaito's words."""
    if each.metadata.terminating:
        return "deleting"
    conditions = conditions_of(each)
    if is_true(conditions, verdict):
        return "succeeded"
    refused = any(str(each.get("reason")).startswith("Invalid") for each in conditions)
    return "error" if refused or status_of(each).get("state") in _FAILED else "pending"


def _by_phase(name: str, text: str, phases: Counter[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["phase"])
    for phase in _PHASES:
        family.add_metric([phase], phases[phase])
    return family
