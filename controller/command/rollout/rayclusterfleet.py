"""RayClusterFleets, as `manta rollout` sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from controller.apimachinery.conditions import READY, find_condition
from controller.apimachinery.custom_object import dig, mapping
from controller.command.rollout.errors import RolloutError
from controller.command.rollout.progress import RolloutProgress
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.kube.resources import Resource

Json = dict[str, Any]

_FAILURES: Final = (
    (READY, "InvalidRayClusterFleet"),
    ("ChangesHeld", ""),
    ("Upgrading", "ProgressDeadlineExceeded"),
)
"""Conditions, with the beginnings of their reasons, that block a rollout until they end."""


class RayClusterFleetRollout:
    """Fleets of clusters; their templates are kept nowhere but in the fleet itself."""

    resource: Resource[Any] = RAYCLUSTERFLEETS

    def progress(self, obj: Json) -> RolloutProgress:
        """Read the conditions; a complete fleet has all of its copies ready."""
        status, generation = mapping(obj.get("status")), obj["metadata"].get("generation", 0)
        conditions: list[Mapping[str, Any]] = status.get("conditions") or []
        if status.get("observedGeneration") != generation:
            return RolloutProgress(
                "unobserved", "the operator has not seen the present specification yet"
            )
        if failure := _failure(conditions):
            return RolloutProgress("failed", failure)
        upgrading = find_condition(conditions, "Upgrading") or {}
        message = str(upgrading.get("message", ""))
        if upgrading.get("status") in {"True", "Unknown"}:
            return RolloutProgress(
                "paused" if upgrading.get("reason") == "Paused" else "rolling", message
            )
        ready = find_condition(conditions, READY) or {}
        if ready.get("status") != "True" and ready.get("reason") != "Suspended":
            return RolloutProgress("rolling", str(ready.get("message", "")))
        return RolloutProgress("complete", message)

    def is_paused(self, obj: Json) -> bool:
        """Return whether its strategy says so."""
        return dig(obj, "spec", "strategy", "paused") is True

    def with_pause(self, obj: Json, *, paused: bool) -> Json:
        """Set `spec.strategy.paused`."""
        spec = obj["spec"]
        strategy = {**mapping(spec.get("strategy")), "paused": paused}
        return {**obj, "spec": {**spec, "strategy": strategy}}

    def templates_of(self, obj: Json) -> Json:
        """Return nothing: a fleet keeps no revisions."""
        _no_history(obj)

    def with_templates(self, obj: Json, templates: Json) -> Json:
        """Return nothing: a fleet keeps no revisions."""
        del templates
        _no_history(obj)

    def left_alone(self, obj: Json, templates: Json) -> Sequence[str]:
        """Return nothing: a fleet keeps no revisions."""
        del templates
        _no_history(obj)

    def images_of(self, templates: Json) -> Sequence[str]:
        """Return nothing: a fleet keeps no revisions."""
        del templates
        return ()


def _failure(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return the failure that blocks the rollout; empty if there is none."""
    for kind, reason in _FAILURES:
        found = find_condition(conditions, kind)
        if found is not None and str(found.get("reason", "")).startswith(reason):
            return str(found.get("message") or kind)
    return ""


def _no_history(fleet: Json) -> NoReturn:
    name = fleet["metadata"]["name"]
    raise RolloutError(
        f"rayclusterfleet {name} keeps no history; apply its earlier manifest, and the copies that "
        "still have that template stay"
    )
