"""The single log line of a reconcile (CTL-7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = structlog.stdlib.get_logger("manta.reconcile")


@dataclass(slots=True)
class ReconcileLog:
    """The fields of the line, filled in while the reconcile runs. Times are in milliseconds."""

    name: str
    reconcile_id: str
    priority: int
    observe_ms: float = 0.0
    plan_ms: float = 0.0
    execute_ms: float = 0.0
    result: str = "gone"
    writes: Mapping[str, int] = field(default_factory=dict[str, int])
    requeue_after: float | None = None
    error: str = ""

    def write(self, controller: str, kind: str) -> None:
        """Log the line, on level debug if nothing was written."""
        namespace, _, name = self.name.rpartition("/")
        fields: dict[str, Any] = {
            "controller": controller,
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "reconcile_id": self.reconcile_id,
            "priority": self.priority,
            "observe_ms": round(self.observe_ms, 2),
            "plan_ms": round(self.plan_ms, 2),
            "execute_ms": round(self.execute_ms, 2),
            "result": self.result,
        }
        if self.writes:
            fields["writes"] = dict(self.writes)
        if self.requeue_after is not None:
            fields["requeue_after"] = round(self.requeue_after, 3)
        if self.error:
            fields["error"] = self.error
        if self.result in {"error", "terminal", "failed"}:
            _log.warning("reconcile", **fields)
        elif self.writes:
            _log.info("reconcile", **fields)
        else:
            _log.debug("reconcile", **fields)
