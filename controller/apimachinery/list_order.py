"""The order of lists whose order has no meaning.

Kubernetes reads many lists as sets, or by the names of their items; people, GitOps tools and
generators write them in any order. Two specifications that differ in nothing else mean the same.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

import msgspec

from controller.apimachinery.custom_object import mapping

_UNORDERED: Final = frozenset({
    "accessModes", "adapters", "add", "claims", "drop", "hosts", "imagePullSecrets", "items",
    "matchExpressions", "matchFields", "matchLabelKeys", "mismatchLabelKeys", "namespaces",
    "nodeSelectorTerms", "ports", "preferredDuringSchedulingIgnoredDuringExecution",
    "preferredNodes", "readinessGates", "requiredDuringSchedulingIgnoredDuringExecution",
    "resourceClaims", "schedulingGates", "supplementalGroups", "sysctls", "tls", "tolerations",
    "topologySpreadConstraints", "values", "volumeDevices", "volumeMounts", "volumes",
    "workerGroupSpecs",
})  # fmt: skip
"""Lists whose order has no meaning.

In others it has one: init containers run in turn, a later source of `envFrom`, or of a projected
volume, hides an earlier one, and arguments and name servers are read in turn, as are host aliases
that have a name in common.
"""

_REFERENCE: Final = re.compile(r"\$\(([^)]+)\)")


def in_canonical_order(value: Any, around: str = "") -> Any:
    """Return plain data with lists sorted as far as their order has no meaning.

    Args:
        value: plain data.
        around: name of the field that encloses it.
    """
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, item in cast("dict[str, Any]", value).items():
            fields[name] = in_canonical_order(item, name)
        return fields
    if isinstance(value, list):
        items = [in_canonical_order(item, around) for item in cast("list[Any]", value)]
        return _sorted(items, around)
    return value


def _sorted(items: list[Any], around: str) -> list[Any]:
    if around == "env":
        return _environment(items)
    if around == "containers":  # the first one is the main container
        return [*items[:1], *sorted(items[1:], key=_text)]
    return sorted(items, key=_text) if around in _UNORDERED else items


def _environment(entries: list[Any]) -> list[Any]:
    """Return variables sorted; `after` keeps which of its references come before an entry.

    `$(NAME)` is replaced only if that variable stands before. Of two variables with one name the
    later one counts, so that such lists stay as they are.
    """
    known = {str(mapping(each).get("name")) for each in entries}
    if len(known) < len(entries):
        return entries
    result: list[dict[str, Any]] = []
    before: set[str] = set()
    for entry in map(mapping, entries):
        used = sorted(before.intersection(_REFERENCE.findall(str(entry.get("value", "")))))
        result.append({**entry, "after": used} if used else entry)
        before.add(str(entry.get("name")))
    return sorted(result, key=_text)


def _text(item: Any) -> bytes:
    return msgspec.json.encode(item, order="sorted")
