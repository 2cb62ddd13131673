"""Recognises watch events that only show what this process wrote about a failure.

A failing key is not reconciled because of its own report: each attempt would cause the next one,
at the speed of events instead of that of the back-off (WQ-24).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from controller.kube.objects import KubeObject


class StatusEchoes:
    """The reports of failing keys, by the revision of the object that each led to.

    An event may arrive before the response to the write that caused it. So events during a
    reconcile are only collected; at its end it is known whose they were.
    """

    def __init__(self) -> None:
        self._reports: dict[str, str] = {}
        self._collected: dict[str, list[str]] = {}

    def begin(self, key: str) -> None:
        """A reconcile of the key begins."""
        self._collected[key] = []

    def end(self, key: str, report: str) -> bool:
        """Return whether the key must be reconciled again because of an event that came meanwhile.

        Args:
            key: whose reconcile has ended.
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
    """True if metadata are equal, and with them the generation, which changes with `spec`."""
    before, after = old.metadata, new.metadata
    return replace(before, resource_version=after.resource_version) == after
