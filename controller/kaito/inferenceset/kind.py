"""The InferenceSet kind: observing, planning and status for the runtime."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from controller.apimachinery.custom_object import IdentityMemo
from controller.apimachinery.validation import Problem
from controller.kaito.api import inference_pool
from controller.kaito.api.definitions import (
    SET_TEMPLATE_FIELDS,
    WORKSPACE_FIELDS,
    is_left_as_it_is,
    template_fields,
)
from controller.kaito.api.inferenceset import (
    INFERENCE_SETS,
    InferenceSet,
    InferenceSetSpec,
    validate_inference_set,
)
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.observe import (
    WATCHES,
    InferenceSetObservation,
    InferenceSetSources,
    observe_inference_set,
    replica,
)
from controller.kaito.inferenceset.plan import plan_inference_set
from controller.kaito.inferenceset.status import current_status
from controller.kube.resources import STATEFUL_SETS
from controller.runtime.definitions import (
    DefinitionReader,
    DefinitionsReader,
    remedy,
    remember,
)
from controller.runtime.kind import CacheReader, Kind, Owned
from controller.runtime.plan import Failure, Plan, StatusPatch

RELIED_ON: Final = (
    "spec.replicas",
    "spec.labelSelector.matchLabels",
    *SET_TEMPLATE_FIELDS,
    "status.conditions",
)
"""Fields of a set that decide how many Workspaces there are, and what each is.

Without `replicas` a set requests one. While a definition lacks such a field, neither the set nor
its Workspaces are written.
"""

RELIED_ON_IN_WORKSPACES: Final = (*WORKSPACE_FIELDS, "status.conditions")
"""Fields of a Workspace that are copied to it, or say whether it serves."""

_CONSEQUENCE: Final = (
    "InferenceSets are left as they are: no Workspace is created, changed or deleted for them"
)
_REMEDY: Final = remedy("manta crds --kind workspace")


class InferenceSetKind(Kind["InferenceSetObservation"]):
    """Keeps as many Workspaces as a set asks for."""

    primary = INFERENCE_SETS
    creates = (WORKSPACES,)
    optional = True

    def __init__(self, options: KaitoOptions | None = None) -> None:
        self._options = options or KaitoOptions()
        has_pools = self._options.provisioner is Provisioner.NODE_POOLS
        self.owned: tuple[Owned[Any], ...] = (
            Owned(WORKSPACES, optional=True),
            Owned(STATEFUL_SETS),
            *(WATCHES if has_pools else ()),
            *((inference_pool.WATCH,) if self._options.inference_pools else ()),
        )
        reader = DefinitionsReader(
            DefinitionReader(INFERENCE_SETS, lambda _schema: RELIED_ON, _CONSEQUENCE, _REMEDY),
            DefinitionReader(
                WORKSPACES, lambda _schema: RELIED_ON_IN_WORKSPACES, _CONSEQUENCE, _REMEDY
            ),
        )
        self._sources = InferenceSetSources(
            IdentityMemo(self._read),
            IdentityMemo(replica),
            self._options,
            reader,
            template_fields("spec", "template", "inference", "template"),
        )

    def observe(self, key: str, reads: CacheReader) -> InferenceSetObservation | None:
        """Return everything that the plan depends on; None if the set is gone."""
        return observe_inference_set(key, reads, self._sources)

    def problem(self, observation: InferenceSetObservation) -> Problem | None:
        """Return why the specification is refused, None if it is valid."""
        return observation.goal if isinstance(observation.goal, Problem) else None

    def plan(self, observation: InferenceSetObservation, now: datetime) -> Plan:
        """Return the plan for the set."""
        return remember(plan_inference_set(observation, now), observation.definition)

    def status_after(
        self,
        observation: InferenceSetObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status; that of a deletion stays, what is left as it is gets none."""
        if is_left_as_it_is(observation.inference_set, observation.definition):
            return plan.status
        return current_status(observation, now, failures)

    def _read(self, found: InferenceSet) -> InferenceSetSpec | Problem:
        return validate_inference_set(found, self._options)
