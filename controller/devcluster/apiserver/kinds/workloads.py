"""Kinds that hold pod templates, and Jobs with their labels and selector."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.jsondata import child
from controller.devcluster.apiserver.kinds.podspec import default_pod_spec, validate_pod_spec
from controller.devcluster.apiserver.status import required
from controller.devcluster.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.status import Cause

UID_LABEL = "batch.kubernetes.io/controller-uid"


class WorkloadStrategy(Strategy):
    """A kind whose spec has a pod template; `defaults` are those of the rest of its spec."""

    has_status = True
    counts_generations = True

    def __init__(self, **defaults: Any) -> None:
        self._defaults = defaults

    def default(self, object_: Json) -> None:
        """Defaults of the type and of its pod template."""
        spec: Json = object_.setdefault("spec", {})
        for name, value in self._defaults.items():
            if spec.get(name) in (None, {}):
                spec[name] = copy.deepcopy(value)
        default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))

    def validate(self, object_: Json, old: Json | None) -> list[Cause]:
        """Metadata, selector and pod template."""
        spec: Json = object_["spec"]
        causes = super().validate(object_, old)
        if not spec.get("selector"):
            causes.append(required("spec.selector"))
        return causes + validate_pod_spec(spec["template"]["spec"], "spec.template.spec")


class JobStrategy(WorkloadStrategy):
    """Jobs select their pods by a label with the job's uid, and orphan them by default."""

    orphans_by_default = True
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
        """Selector and template labels that no other job has."""
        object_["status"] = {}
        spec: Json = object_.setdefault("spec", {})
        metadata: Json = object_["metadata"]
        if not spec.get("manualSelector"):
            template: Json = spec.setdefault("template", {}).setdefault("metadata", {})
            labels: Json = template.setdefault("labels", {})
            for prefix in ("", "batch.kubernetes.io/"):
                labels.setdefault(f"{prefix}controller-uid", metadata["uid"])
                labels.setdefault(f"{prefix}job-name", metadata.get("name", ""))
            spec.setdefault("selector", {"matchLabels": {UID_LABEL: metadata["uid"]}})
        labels = child(child(child(spec, "template"), "metadata"), "labels")
        if labels and not metadata.get("labels"):
            metadata["labels"] = dict(labels)

    def default(self, object_: Json) -> None:
        """One completion, one pod at a time, unless one of them is given."""
        spec: Json = object_.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        super().default(object_)

    def validate(self, object_: Json, old: Json | None) -> list[Cause]:
        """The template must say what happens to pods that fail."""
        policy = object_["spec"]["template"]["spec"]["restartPolicy"]
        causes = super().validate(object_, old)
        if policy not in {"OnFailure", "Never"}:
            field = "spec.template.spec.restartPolicy"
            causes.append(required(field, 'valid values: "OnFailure", "Never"'))
        return causes


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
DAEMON_SETS = WorkloadStrategy(
    revisionHistoryLimit=10,
    updateStrategy={
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    },
)
