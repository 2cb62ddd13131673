"""Which fields of an existing object are ours, and how they differ from what is wanted.

Ours are the labels and annotations that we set, and the rest of what was asked for when the object
was made. What others added is left alone. Only what the view shows is compared: what it does not
know, and what the server filled in, is nobody's drift.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import msgspec

from controller.apimachinery.merge_patch import difference
from controller.ray.api.labels import OWNED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import KubeObject
    from controller.ray.children.child import Body, Child, OwnedKeys


def with_owned_fields(body: Body) -> Body:
    """The body with an annotation that names its variable keys, for the day they are not wanted."""
    metadata: Body = body["metadata"]
    spec: Body = body["spec"]
    keys = {
        "annotations": sorted(metadata.get("annotations", ())),
        "labels": sorted(metadata.get("labels", ())),
        "ports": sorted(port["name"] for port in spec.get("ports", ())),
        "spec": sorted(spec),
    }
    text = json.dumps({where: names for where, names in keys.items() if names}, sort_keys=True)
    annotations = metadata.get("annotations", {}) | {OWNED_FIELDS: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def read_owned_fields(annotations: Mapping[str, str] | None) -> OwnedKeys:
    """The keys that the annotation names; none if somebody has spoilt it."""
    try:
        found: Any = json.loads((annotations or {}).get(OWNED_FIELDS, "{}"))
        return {str(where): frozenset(map(str, names)) for where, names in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def changes(part: Child, present: KubeObject) -> tuple[Body, tuple[str, ...]]:
    """The merge patch that makes our fields as wanted, and what cannot be changed.

    The patch is empty if there is nothing to do.
    """
    formerly = read_owned_fields(present.metadata.annotations)
    wish = part.desired_fields(part.body, present, formerly)
    now: Body = msgspec.to_builtins(present)
    wanted = _shown(wish.fields, now)
    lost = _lost(formerly, read_owned_fields(part.body["metadata"].get("annotations")))
    for where in ("labels", "annotations"):
        if lost.get(where):
            metadata: Body = wanted.setdefault("metadata", {})
            metadata[where] = lost[where] | metadata.get(where, {})
    if lost.get("spec"):
        wanted["spec"] = lost["spec"] | wanted.get("spec", {})
    return difference(now, wanted), wish.immutable_fields


def _lost(formerly: OwnedKeys, wanted: OwnedKeys) -> dict[str, dict[str, None]]:
    """What a merge patch says about keys that were ours and are no longer wanted."""
    return {
        where: dict.fromkeys(sorted(names - wanted.get(where, frozenset())))
        for where, names in formerly.items()
    }


def _shown(wanted: Mapping[str, Any], now: Mapping[str, Any]) -> Body:
    """Without the members of the object and of its spec that the view does not know."""
    shown: Body = {key: value for key, value in wanted.items() if key in now}
    spec: Any = now.get("spec")
    if isinstance(spec, dict) and "spec" in shown:
        known = cast("Body", spec)
        shown["spec"] = {key: value for key, value in shown["spec"].items() if key in known}
    return shown
