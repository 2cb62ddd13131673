"""Looks into a running operator."""

from __future__ import annotations

from typing import Any

from controller.kube.resources import Resource
from controller.testing.cluster import RunningOperator


def queued(running: RunningOperator) -> int:
    """How many objects wait for the first of its kinds."""
    return len(running.operator.controllers[running.kind.name].queue)


def unseen_writes(running: RunningOperator) -> int:
    """How many objects are shown otherwise than the caches have them."""
    return running.operator.expectations.statistics().expectations


def unready_cache(running: RunningOperator) -> str | None:
    """Why the caches are not to be trusted."""
    return running.operator.caches.unready()


def unready(running: RunningOperator, endpoint: str, check: str) -> str | None:
    """What a check of `readyz` or `livez` says against the process."""
    return running.operator.health.endpoints[endpoint][check]()


def informer_of(running: RunningOperator, resource: Resource[Any]) -> Any:
    """The one informer of a resource."""
    [found] = [
        each.informer for each in running.operator.caches.caches if str(resource) in str(each)
    ]
    return found
