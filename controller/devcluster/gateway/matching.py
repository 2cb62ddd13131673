"""Chooses the backend of a request: by host name and path of the routes, then by the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from controller.devcluster.gateway.objects import HTTPRoute

Backend = dict[str, Any]


def backends_for(
    routes: Sequence[HTTPRoute], host: str, path: str
) -> tuple[HTTPRoute, list[Backend]] | None:
    """Return the route that applies and its rule's backends; None if none applies."""
    for route in routes:
        if route.spec.hostnames and not any(_is_host(each, host) for each in route.spec.hostnames):
            continue
        for rule in route.spec.rules:
            matches: list[dict[str, Any]] = rule.get("matches") or [{}]
            if any(_matches(each, path) for each in matches):
                return route, rule.get("backendRefs") or []
    return None


def choose(backends: Sequence[Backend], rng: random.Random) -> Backend | None:
    """Return one of the backends, by their weights; None if no weight is positive."""
    weights = [each.get("weight", 1) for each in backends]
    if not any(weights):
        return None
    [chosen] = rng.choices(backends, weights)
    return chosen


def _is_host(pattern: str, host: str) -> bool:
    name = host.rpartition(":")[0] or host if host.rpartition(":")[2].isdigit() else host
    if pattern.startswith("*."):
        return name.endswith(pattern[1:]) and name != pattern[2:]
    return name == pattern


def _matches(condition: Mapping[str, Any], path: str) -> bool:
    wanted: Mapping[str, Any] = condition.get("path") or {}
    value: str = wanted.get("value", "/")
    match wanted.get("type", "PathPrefix"):
        case "Exact":
            return path == value
        case "PathPrefix":
            prefix = value.rstrip("/")
            return not prefix or path == prefix or path.startswith(f"{prefix}/")
        case _:
            return False
