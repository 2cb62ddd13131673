"""Kinds that hold pod templates."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.kinds.pod_defaults import default_pod_spec
from controller.devcluster.apiserver.kinds.pod_rules import validate_pod_spec
from controller.devcluster.apiserver.protocol.status import required
from controller.devcluster.apiserver.resources.strategy import Strategy

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.protocol.status import StatusCause


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
DAEMON_SETS = WorkloadStrategy(
    revisionHistoryLimit=10,
    updateStrategy={
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    },
)
