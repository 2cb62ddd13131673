"""Jobs and other kinds that hold pod templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.kinds.podspec import default_pod_spec, validate_pod_spec
from controller.devcluster.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.status import Cause


class JobStrategy(Strategy):
    """Jobs select their pods by a label with the job's uid, and orphan them by default."""

    has_status = True
    counts_generations = True
    orphans_by_default = True

    def prepare_create(self, object_: Json) -> None:
        """Selector and template labels that no other job has."""
        object_["status"] = {}
        spec: Json = object_.setdefault("spec", {})
        if spec.get("manualSelector"):
            return
        metadata: Json = object_["metadata"]
        template: Json = spec.setdefault("template", {})
        labels: Json = template.setdefault("metadata", {}).setdefault("labels", {})
        for prefix in ("", "batch.kubernetes.io/"):
            labels.setdefault(f"{prefix}controller-uid", metadata["uid"])
            if metadata.get("name"):
                labels.setdefault(f"{prefix}job-name", metadata["name"])
        label = "batch.kubernetes.io/controller-uid"
        spec.setdefault("selector", {"matchLabels": {label: metadata["uid"]}})

    def default(self, object_: Json) -> None:
        """Defaults of the type and of its pod template."""
        spec: Json = object_.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
        default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))

    def validate(self, object_: Json, old: Json | None) -> list[Cause]:
        """Metadata and pod template."""
        template: Json = object_["spec"]["template"]
        return super().validate(object_, old) + validate_pod_spec(
            template["spec"], "spec.template.spec"
        )
