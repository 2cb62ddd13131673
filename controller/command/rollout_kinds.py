"""Rollouts of each kind: their progress and their revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

import msgspec

from controller.apimachinery.conditions import READY, find_condition
from controller.apimachinery.custom_object import dig, mapping, without_nulls
from controller.apimachinery.problem import Problem
from controller.command.connection import CommandFailed
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.upgrade_strategy import (
    ROLLING_UPDATE,
    RayClusterUpgradeStrategy,
    RollingUpdate,
    strategy_in_force,
)
from controller.ray.pods.hashes import groups_only_in, templates_of, with_templates

# The progress of a rollout, as data: `-o json` prints it, `text` puts it into words.

State = Literal["unobserved", "rolling", "paused", "failed", "complete"]


class GroupProgress(msgspec.Struct, frozen=True, rename="camel"):
    """One group, in pods: `updated` are of the new template, `outdated` still to be replaced.

    The head has no name.
    """

    name: str = ""
    desired: int = 0
    updated: int = 0
    ready: int = 0
    outdated: int = 0


class RolloutProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of one object.

    It is `unobserved` until the operator has seen the present specification, `failed` if it will
    not end by itself. Groups are empty if the operator does not say, as with KubeRay's definitions.
    """

    state: State
    message: str = ""
    groups: tuple[GroupProgress, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if there is nothing left to wait for."""
        return self.state in {"failed", "complete"}


# RayClusters, as `manta rollout` sees them.

Json = dict[str, Any]

UPGRADING: Final = "Upgrading"
"""The condition that reports the progress of a rolling update."""

FAILED: Final = frozenset({
    "ProgressDeadlineExceeded",
    "IncompatibleVersions",
    "HeadNeedsFaultTolerance",
    "NotExplained",
})  # fmt: skip
"""Reasons of the condition for which a rolling update does not end without its user."""


class RayClusterRollout:
    """RayClusters with the strategy RollingUpdate."""

    resource: Resource[Any] = RAYCLUSTERS

    def progress(self, obj: Json) -> RolloutProgress:
        """Read the condition `Upgrading`, and `status.upgrade` if the definition keeps it.

        A cluster that is complete is ready, too.

        Raises:
            CommandFailed: it has no rolling updates.
        """
        _settings(obj)
        status, generation = mapping(obj.get("status")), obj["metadata"].get("generation", 0)
        conditions: list[Mapping[str, Any]] = status.get("conditions") or []
        groups = tuple(_group(each) for each in dig(status, "upgrade", "groups") or ())
        if status.get("observedGeneration") != generation:
            return RolloutProgress(
                "unobserved", "the operator has not seen the present specification yet"
            )
        ready = find_condition(conditions, READY) or {}
        if str(ready.get("reason", "")).startswith("InvalidRayCluster"):
            return RolloutProgress("failed", str(ready.get("message", "")))
        upgrading = find_condition(conditions, UPGRADING) or {}
        message, reason = str(upgrading.get("message", "")), upgrading.get("reason")
        if reason in FAILED:
            return RolloutProgress("failed", message, groups)
        if upgrading.get("status") in {"True", "Unknown"}:
            return RolloutProgress("paused" if reason == "Paused" else "rolling", message, groups)
        outdated = find_condition(conditions, "PodsUpToDate") or {}
        for each in (outdated, ready):
            if each.get("status") == "False" and each.get("reason") != "Suspended":
                return RolloutProgress("rolling", str(each.get("message", "")), groups)
        return RolloutProgress("complete", message, groups)

    def is_paused(self, obj: Json) -> bool:
        """Return whether the strategy in force says so."""
        return _settings(obj).paused

    def with_pause(self, obj: Json, *, paused: bool) -> Json:
        """Set `paused` where the strategy was given: in the field, the annotation or both."""
        _settings(obj)
        spec, meta = obj["spec"], obj["metadata"]
        annotations: dict[str, str] = meta.get("annotations") or {}
        text = annotations.get(labels.UPGRADE_STRATEGY, "").strip()
        given = mapping(spec.get("upgradeStrategy"))
        changed = dict(obj)
        if given.get("type") == ROLLING_UPDATE:
            strategy = _with_pause(given, paused=paused)
            changed["spec"] = {**spec, "upgradeStrategy": strategy}
        if text and (text != ROLLING_UPDATE or changed["spec"] is spec):
            strategy = {"type": text} if text == ROLLING_UPDATE else msgspec.json.decode(text)
            strategy = _with_pause(strategy, paused=paused)
            encoded = msgspec.json.encode(strategy).decode()
            changed["metadata"] = {
                **meta,
                "annotations": {**annotations, labels.UPGRADE_STRATEGY: encoded},
            }
        return changed

    def templates_of(self, obj: Json) -> Json:
        """Return the templates of head and workers."""
        return templates_of(without_nulls(obj["spec"]))

    def with_templates(self, obj: Json, templates: Json) -> Json:
        """Return the object with the templates of the groups that both have."""
        return {**obj, "spec": with_templates(obj["spec"], templates)}

    def left_alone(self, obj: Json, templates: Json) -> Sequence[str]:
        """Return the groups that were added or removed since."""
        added = groups_only_in(obj["spec"], templates)
        removed = groups_only_in(templates, obj["spec"])
        return [
            *(f"group {name} was added since and stays as it is" for name in added),
            *(f"group {name} was removed since and is not brought back" for name in removed),
        ]

    def images_of(self, templates: Json) -> Sequence[str]:
        """Return the images of the first containers, the head's first."""
        groups = [mapping(templates.get("headGroupSpec")), *templates.get("workerGroupSpecs", ())]
        images = (dig(each, "template", "spec", "containers", 0, "image") for each in groups)
        return list(dict.fromkeys(image for image in images if image))


def _settings(obj: Json) -> RollingUpdate:
    """Return the settings of the strategy in force.

    Raises:
        CommandFailed: it is no rolling update, or cannot be read.
    """
    given = without_nulls(obj["spec"].get("upgradeStrategy") or {})
    try:
        strategy = msgspec.convert(given, RayClusterUpgradeStrategy)
    except msgspec.ValidationError as error:
        raise CommandFailed(f"spec.upgradeStrategy cannot be read: {error}; correct it") from error
    found = strategy_in_force(strategy, obj["metadata"].get("annotations") or {})
    if isinstance(found, Problem):
        raise CommandFailed(str(found))
    if found.rolling is None:
        raise CommandFailed(
            f"spec.upgradeStrategy.type is {found.type or 'not set'}, so that there is no rolling "
            f"update; set it to {ROLLING_UPDATE}, or with KubeRay's definitions the annotation "
            f"{labels.UPGRADE_STRATEGY}"
        )
    return found.rolling


def _with_pause(strategy: Json, *, paused: bool) -> Json:
    settings = {**mapping(strategy.get("rollingUpdate")), "paused": paused}
    return {**strategy, "rollingUpdate": settings}


def _group(each: Any) -> GroupProgress:
    try:
        return msgspec.convert(mapping(each), GroupProgress)
    except msgspec.ValidationError:
        return GroupProgress()


# RayClusterFleets, as `manta rollout` sees them.

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
    raise CommandFailed(
        f"rayclusterfleet {name} keeps no history; apply its earlier manifest, and the copies that "
        "still have that template stay"
    )
