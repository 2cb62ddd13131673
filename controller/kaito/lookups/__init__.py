"""Slow look-ups of Workspaces, made in the background: no worker waits for them."""

from __future__ import annotations

from controller.kaito.lookups.background import Answered, LookupState, Unanswered
from controller.kaito.lookups.benchmark import BenchmarkLog, Measurement
from controller.kaito.lookups.huggingface import ModelMetadata, WebReader, WorkspaceLookups

__all__ = [
    "Answered",
    "BenchmarkLog",
    "LookupState",
    "Measurement",
    "ModelMetadata",
    "Unanswered",
    "WebReader",
    "WorkspaceLookups",
]
