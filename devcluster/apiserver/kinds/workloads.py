"""Kinds that hold pod templates, and Jobs: labels and selector, defaults, immutable fields."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from devcluster.apiserver.kinds.pod_specs import default_pod_spec, validate_pod_spec
from devcluster.apiserver.objects import Json, child, is_name_label
from devcluster.apiserver.resources import Strategy
from devcluster.apiserver.status import (
    StatusCause,
    check_choice,
    invalid_value,
    required,
)


class WorkloadStrategy(Strategy):
    """A kind whose spec has a pod template; `defaults` are those of the rest of its spec."""

    has_status = True
    counts_generations = True

    def __init__(self, **defaults: Any) -> None:
        self._defaults = defaults

    def default(self, object_: Json) -> None:
        """Fill in the defaults of the type and of its pod template."""
        spec: Json = object_.setdefault("spec", {})
        for name, value in self._defaults.items():
            if spec.get(name) in (None, {}):
                spec[name] = copy.deepcopy(value)
        default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata, selector and pod template."""
        spec: Json = object_["spec"]
        causes = super().validate(object_, old)
        if not spec.get("selector"):
            causes.append(required("spec.selector"))
        return causes + validate_pod_spec(spec["template"]["spec"], "spec.template.spec")


DEPLOYMENTS = WorkloadStrategy(
    replicas=1,
    revisionHistoryLimit=10,
    progressDeadlineSeconds=600,
    strategy={
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    },
)
REPLICA_SETS = WorkloadStrategy(replicas=1)
STATEFUL_SETS = WorkloadStrategy(
    replicas=1,
    revisionHistoryLimit=10,
    podManagementPolicy="OrderedReady",
    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
)
HOSTNAME_WARNING = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
    "behavior; a DNS label is recommended: [%s]"
)
UID_LABEL = "batch.kubernetes.io/controller-uid"
_MODES = ("NonIndexed", "Indexed")
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
)
_SCHEDULING = frozenset({"affinity", "nodeSelector", "schedulingGates", "tolerations"})


class JobStrategy(WorkloadStrategy):
    """Jobs select their pods by a label with the job's uid, and orphan them by default."""

    orphans_by_default = True
    server_defaulted = frozenset({("f:spec", "f:selector")})
    deletion_warning = (
        "child pods are preserved by default when jobs are deleted; set "
        "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
        "this warning"
    )

    def __init__(self) -> None:
        super().__init__(
            backoffLimit=6,
            completionMode="NonIndexed",
            suspend=False,
            manualSelector=False,
            podReplacementPolicy="TerminatingOrFailed",
        )

    def prepare_create(self, object_: Json) -> None:
        """Set a unique selector and the template's labels."""
        object_["status"] = {}
        spec: Json = object_.setdefault("spec", {})
        metadata: Json = object_["metadata"]
        if not spec.get("manualSelector"):
            template: Json = spec.setdefault("template", {}).setdefault("metadata", {})
            labels: Json = template.setdefault("labels", {})
            for prefix in ("", "batch.kubernetes.io/"):
                labels.setdefault(f"{prefix}controller-uid", metadata["uid"])
                labels.setdefault(f"{prefix}job-name", metadata.get("name", ""))
            selector: Json = spec.setdefault("selector", {})
            selector.setdefault("matchLabels", {})[UID_LABEL] = metadata["uid"]

    def default(self, object_: Json) -> None:
        """Default to one completion and one pod at a time."""
        spec: Json = object_.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        super().default(object_)
        labels = child(child(spec["template"], "metadata"), "labels")
        if labels and not object_["metadata"].get("labels"):
            object_["metadata"]["labels"] = dict(labels)

    def warnings(self, object_: Json, old: Json | None) -> list[str]:
        """Warn of names that cannot be hostnames of the pods."""
        problems = [] if old else is_name_label(object_["metadata"]["name"])
        return [HOSTNAME_WARNING % ", ".join(problems)] if problems else []

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate numbers, selector, template and immutable fields."""
        spec: Json = object_["spec"]
        causes = super().validate(object_, old) + _validate_numbers(spec)
        policy = spec["template"]["spec"]["restartPolicy"]
        if policy == "Always":
            field = "spec.template.spec.restartPolicy"
            causes.append(required(field, 'valid values: "OnFailure", "Never"'))
        causes += check_choice("spec.completionMode", spec["completionMode"], _MODES)
        if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
            why = "when completion mode is Indexed"
            causes.append(required("spec.completions", why))
        causes += _validate_selector(object_)
        return causes + (_validate_change(spec, old) if old else [])


def _validate_numbers(spec: Json) -> list[StatusCause]:
    return [
        invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in _NUMBERS
        if spec.get(name, 0) < 0
    ]


def _validate_selector(job: Json) -> list[StatusCause]:
    spec: Json = job["spec"]
    selector = _sorted(child(spec, "selector"))
    labels = _sorted(child(child(spec["template"], "metadata"), "labels"))
    wanted = child(selector, "matchLabels")
    causes: list[StatusCause] = []
    if not spec.get("manualSelector") and wanted != {UID_LABEL: job["metadata"]["uid"]}:
        why = "`selector` not auto-generated"
        causes.append(invalid_value("spec.selector", selector, why))
    if not wanted or not wanted.items() <= labels.items():
        why = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", labels, why))
    return causes


def _sorted(value: Json) -> Json:
    """Sort maps of labels as upstream quotes them."""
    return msgspec.json.decode(msgspec.json.encode(value, order="sorted"))


def _validate_change(spec: Json, old: Json) -> list[StatusCause]:
    """Refuse changes; only a suspended job that has not started may change its template."""
    before: Json = old["spec"]
    waits = bool(before.get("suspend")) and not child(old, "status").get("startTime")
    causes: list[StatusCause] = []
    for name in ("completions", "selector", "template", "completionMode"):
        new: Any = spec.get(name)
        fixed: Any = before.get(name)
        path = f"spec.{name}"
        if name == "completions" and _resizes(spec, before):
            continue
        if name == "template" and waits:
            path, new, fixed = f"{path}.spec", _fixed_parts(spec), _fixed_parts(before)
        if name == "completions" and new != fixed and spec["completionMode"] == "Indexed":
            why = "can only be modified in tandem with spec.parallelism"
            causes.append(invalid_value(path, new, why))
        elif new != fixed:
            shown = _sorted(new) if name == "selector" else new
            causes.append(invalid_value(path, shown, "field is immutable"))
    return causes


def _resizes(spec: Json, before: Json) -> bool:
    return before["completionMode"] == "Indexed" and spec.get("completions") == spec["parallelism"]


def _fixed_parts(spec: Json) -> Json:
    """Return the immutable part of the template of a job that has not started."""
    pod: Json = spec["template"]["spec"]
    return {name: value for name, value in pod.items() if name not in _SCHEDULING}
