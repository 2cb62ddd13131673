"""The verbs that a plan's writes take."""

from __future__ import annotations

from controller.runtime.plan import Create, Delete, JsonPatch, MergePatch, Replace, Write


def needed(write: Write) -> frozenset[str]:
    """The verbs that carrying out a write takes; a GET follows when it meets something else."""
    match write:
        case Create():
            return frozenset({"create", "get"})
        case MergePatch() | JsonPatch():
            return frozenset({"patch", "get"})
        case Replace():
            return frozenset({"get", "update"})
        case Delete():
            return frozenset({"delete", "get"})
