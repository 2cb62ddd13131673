"""Unexplained changes, which are held and reported instead of carried out.

The generation distinguishes an edit from a definition, or a version of the operator, that reads the
same specification in another way. A user releases held changes by an edit or an annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.kubectl import overwrite_command
from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.fleet.condition_types import UPGRADING
from controller.ray.pods.hashes.template_hash import is_outdated
from controller.runtime.reconcile.definitions.installed_definition import REMEDY

if TYPE_CHECKING:
    from controller.ray.fleet.observation import FleetObservation


def held_changes(seen: FleetObservation) -> str:
    """Return why copies are neither replaced nor deleted; empty if nothing is held."""
    doubt = "" if isinstance(seen.goal, Problem) else _doubt(seen)
    meta = seen.fleet.metadata
    if not doubt or (meta.annotations or {}).get(labels.CONFIRM_DELETION) == str(meta.generation):
        return ""
    confirmed = {labels.CONFIRM_DELETION: str(meta.generation)}
    command = overwrite_command("annotate", RAYCLUSTERFLEETS.kind, meta, confirmed)
    return (
        f"generation {meta.generation} of the specification {doubt}, without an edit. {REMEDY}; if "
        f"copies are to be replaced or deleted, confirm it: {command}"
    )


def _doubt(seen: FleetObservation) -> str:
    """Return a clause about changes in a specification whose generation was already observed."""
    recorded = find_condition(seen.conditions, UPGRADING) or {}
    if recorded.get("observedGeneration") != seen.fleet.metadata.generation:
        return ""
    before = seen.status.get("desiredReplicas")
    if isinstance(before, int) and seen.desired < before:
        return f"asked for {before} copies and now asks for {seen.desired}"
    if is_outdated(seen.status.get("templateHash"), seen.valid_goal.template_hash):
        return "has another template now"
    return ""
