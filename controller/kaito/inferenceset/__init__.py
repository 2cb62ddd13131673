"""InferenceSet: replicas of a Workspace. What is due, and with which bodies, as pure functions."""

from __future__ import annotations

from controller.kaito.inferenceset.body import label_changes, workspace_body
from controller.kaito.inferenceset.decision import SetDecision, next_changes
from controller.kaito.inferenceset.names import replica_names
from controller.kaito.inferenceset.replicas import Replica, replica
from controller.kaito.inferenceset.report import SetReport, report

__all__ = [
    "Replica",
    "SetDecision",
    "SetReport",
    "label_changes",
    "next_changes",
    "replica",
    "replica_names",
    "report",
    "workspace_body",
]
