"""The templates of all pods of a cluster, which an upgrade changes and an undo restores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.ray.pods.hashes.template_hash import FORMER, TEMPLATE_FIELDS, digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.ray.pods.hashes.template_hash import Hash

Spec = dict[str, Any]

_HEAD: Final = "headGroupSpec"
_WORKERS: Final = "workerGroupSpecs"


def templates_of(spec: Mapping[str, Any]) -> Spec:
    """Return the part of a cluster's specification from which its pods are created."""
    head = _template_fields(mapping(spec.get(_HEAD)))
    workers = [
        {"groupName": group["groupName"], **_template_fields(group)} for group in _groups(spec)
    ]
    version = {"rayVersion": spec["rayVersion"]} if spec.get("rayVersion") else {}
    return {**version, _HEAD: head, _WORKERS: workers}


def template_set_digest(ray_version: str, hashes: Mapping[str, Hash]) -> str:
    """Hash all templates, given the hashes of the groups; the head's name is empty.

    Revisions are named after it, so that it stays that of the algorithm before: an upgrade of the
    operator stores no second revision of the same templates.
    """
    return digest([ray_version, {name: each.former for name, each in hashes.items()}], FORMER)


def with_templates(spec: Mapping[str, Any], templates: Mapping[str, Any]) -> Spec:
    """Return the specification with the templates of the groups that both have."""
    earlier = {group["groupName"]: group for group in _groups(templates)}
    head = _replaced(mapping(spec.get(_HEAD)), mapping(templates.get(_HEAD)))
    workers = [
        _replaced(group, earlier[group["groupName"]]) if group["groupName"] in earlier else group
        for group in _groups(spec)
    ]
    kept = {key: value for key, value in spec.items() if key != "rayVersion"}
    version = {"rayVersion": templates["rayVersion"]} if templates.get("rayVersion") else {}
    return {**kept, **version, _HEAD: head, _WORKERS: workers}


def groups_only_in(spec: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the worker groups that the second specification lacks."""
    known = {group["groupName"] for group in _groups(other)}
    return tuple(group["groupName"] for group in _groups(spec) if group["groupName"] not in known)


def _groups(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (mapping(group) for group in spec.get(_WORKERS) or ())


def _template_fields(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: group[key] for key in TEMPLATE_FIELDS if group.get(key) is not None}


def _replaced(group: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in group.items() if key not in TEMPLATE_FIELDS}
    return {**kept, **_template_fields(earlier)}
