"""Rollouts of each kind: their progress and their revisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from controller.apimachinery.conditions import READY, find_condition
from controller.apimachinery.custom_object import dig, mapping, without_nulls
from controller.apimachinery.validation import Problem
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
from controller.ray.pods.hashes import digest, groups_only_in, templates_of, with_templates

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


Json = dict[str, Any]


class RolloutKind:
    """A kind that is rolled out; the defaults are those of fleets. Objects are plain data.

    Attributes:
        failures: conditions, with the beginnings of their reasons, for which a rollout does not
            end without its user.
        awaited: conditions that are true when a rollout is complete, and what counts for one that
            an object has not.
    """

    resource: ClassVar[Resource[Any]]
    failures: ClassVar[Sequence[tuple[str, str]]]
    awaited: ClassVar[tuple[Sequence[str], Mapping[str, Any]]] = ((READY,), {})

    def progress(self, obj: Json) -> RolloutProgress:
        """Read the conditions, and `status.upgrade` if the definition keeps it.

        An object that is complete is ready, too.

        Raises:
            CommandFailed: it has no rolling updates.
        """
        self.is_paused(obj)  # refused without them
        status, generation = mapping(obj.get("status")), obj["metadata"].get("generation", 0)
        conditions: list[Mapping[str, Any]] = status.get("conditions") or []
        groups = tuple(_group(each) for each in dig(status, "upgrade", "groups") or ())
        if status.get("observedGeneration") != generation:
            return RolloutProgress(
                "unobserved", "the operator has not seen the present specification yet"
            )
        for kind, reason in self.failures:
            found = find_condition(conditions, kind)
            if found is not None and str(found.get("reason", "")).startswith(reason):
                return RolloutProgress("failed", str(found.get("message") or kind), groups)
        upgrading = find_condition(conditions, "Upgrading") or {}
        message = str(upgrading.get("message", ""))
        if upgrading.get("status") in {"True", "Unknown"}:
            state = "paused" if upgrading.get("reason") == "Paused" else "rolling"
            return RolloutProgress(state, message, groups)
        names, absent = self.awaited
        for name in names:
            each = find_condition(conditions, name) or absent
            if each.get("status") != "True" and each.get("reason") != "Suspended":
                return RolloutProgress("rolling", str(each.get("message", "")), groups)
        return RolloutProgress("complete", message, groups)

    def is_paused(self, obj: Json) -> bool:
        """Return whether the strategy in force says so."""
        return dig(obj, "spec", "strategy", "paused") is True

    def with_pause(self, obj: Json, *, paused: bool) -> Json:
        """Return the object with another `paused`, where its strategy was given."""
        spec = obj["spec"]
        strategy = {**mapping(spec.get("strategy")), "paused": paused}
        return {**obj, "spec": {**spec, "strategy": strategy}}

    def templates_of(self, obj: Json) -> Json:
        """Return the templates that its revisions hold.

        Raises:
            CommandFailed: it keeps no revisions.
        """
        raise CommandFailed(
            f"{self.resource.kind.lower()} {obj['metadata']['name']} keeps no history; apply its "
            "earlier manifest, and the copies that still have that template stay"
        )


class RayClusterRollout(RolloutKind):
    """RayClusters with the strategy RollingUpdate."""

    resource = RAYCLUSTERS
    failures = (
        (READY, "InvalidRayCluster"),
        ("Upgrading", "ProgressDeadlineExceeded"),
        ("Upgrading", "IncompatibleVersions"),
        ("Upgrading", "HeadNeedsFaultTolerance"),
        ("Upgrading", "NotExplained"),
    )

    awaited = (("PodsUpToDate", READY), {"status": "True"})

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


class RayClusterFleetRollout(RolloutKind):
    """Fleets of clusters; their templates are kept nowhere but in the fleet itself."""

    resource = RAYCLUSTERFLEETS
    failures = (
        (READY, "InvalidRayClusterFleet"),
        ("ChangesHeld", ""),
        ("Upgrading", "ProgressDeadlineExceeded"),
    )


def templates_restored(obj: Json, templates: Json) -> Json:
    """Return the RayCluster with the templates of the groups that both have."""
    return {**obj, "spec": with_templates(obj["spec"], templates)}


def left_alone(obj: Json, templates: Json) -> Sequence[str]:
    """Return the groups that were added or removed since."""
    added = groups_only_in(obj["spec"], templates)
    removed = groups_only_in(templates, obj["spec"])
    return [
        *(f"group {name} was added since and stays as it is" for name in added),
        *(f"group {name} was removed since and is not brought back" for name in removed),
    ]


def images_of(templates: Json) -> tuple[str, ...]:
    """Return the images of the first containers, the head's first."""
    groups = [mapping(templates.get("headGroupSpec")), *templates.get("workerGroupSpecs", ())]
    images = (dig(each, "template", "spec", "containers", 0, "image") for each in groups)
    return tuple(dict.fromkeys(image for image in images if image))


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


class TemplateRevision(msgspec.Struct, frozen=True, rename="camel"):
    """One revision, with the name of its ControllerRevision and when it was first seen (RFC 3339).

    `current` is the one whose templates the object has now.
    """

    revision: int
    name: str
    created: str
    current: bool
    images: tuple[str, ...]
    change_cause: str
    templates: Json


def revisions_in(listed: Iterable[Json], obj: Json, present: Json) -> list[TemplateRevision]:
    """Return the revisions of an object among these, by number; `present` are its templates."""
    uid = obj["metadata"]["uid"]
    found = [_revision(each, present) for each in listed if _owner(each) == uid]
    return sorted(found, key=lambda each: (each.revision, each.name))


def _owner(revision: Json) -> str:
    owners: list[Json] = revision["metadata"].get("ownerReferences") or []
    return next((each.get("uid", "") for each in owners if each.get("controller")), "")


def _revision(raw: Json, present: Json) -> TemplateRevision:
    meta, templates = raw["metadata"], mapping(dig(raw, "data", "spec"))
    cause = mapping(meta.get("annotations")).get("kubernetes.io/change-cause", "")
    return TemplateRevision(
        raw.get("revision", 0),
        meta["name"],
        meta.get("creationTimestamp", ""),
        digest(templates) == digest(present),
        images_of(templates),
        cause,
        templates,
    )
