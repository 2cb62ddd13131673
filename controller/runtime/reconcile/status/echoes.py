"""Recognises watch events that only show what this process wrote about a failure.

The report of a failing key must not cause its next reconcile: attempts would follow each other at
the speed of events instead of the back-off's (WQ-24).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from controller.kube.objects import KubeObject


class StatusEchoes:
    """Remembers the revision that each failing key's report led to.

    An event may arrive before the response to the write that caused it. So events during a
    reconcile are collected and judged at its end.
    """

    def __init__(self) -> None:
        self._reports: dict[str, str] = {}
        self._collected: dict[str, list[str]] = {}

    def begin(self, key: str) -> None:
        """Start to collect events, because a reconcile of the key begins."""
        self._collected[key] = []

    def end(self, key: str, report: str) -> bool:
        """Return whether an event during the reconcile requires another one.

        Args:
            key: key whose reconcile has ended.
            report: revision that its report led to; empty if it has not failed.
        """
        if report:
            self._reports[key] = report
        else:
            self._reports.pop(key, None)
        return any(revision != report for revision in self._collected.pop(key))

    def absorb(self, old: KubeObject, new: KubeObject) -> bool:
        """Return whether the key need not be enqueued for this event."""
        key, revision = new.metadata.key, new.metadata.resource_version
        collected = self._collected.get(key)
        if collected is None and self._reports.get(key) != revision:
            return False
        if not _only_status_differs(old, new):
            return False
        if collected is not None:
            collected.append(revision)
        return True


def _only_status_differs(old: KubeObject, new: KubeObject) -> bool:
    """Return whether metadata is equal, including the generation, which changes with `spec`."""
    before, after = old.metadata, new.metadata
    return replace(before, resource_version=after.resource_version) == after
