"""The annotation that lists the keys which the operator has set on an object.

With it, a key that is no longer desired is removed, and keys that others have set are kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from controller.ray.api.labels import OWNED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.children.child import Body, OwnedKeys


def with_owned_fields(body: Body) -> Body:
    """Return the body with an annotation that lists its keys."""
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
    """Return the keys that the annotation lists; none if it is malformed."""
    try:
        found: Any = json.loads((annotations or {}).get(OWNED_FIELDS, "{}"))
        return {str(where): frozenset(map(str, names)) for where, names in found.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}
