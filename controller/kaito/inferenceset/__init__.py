"""The InferenceSet kind: replicas of a Workspace."""

from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.inferenceset.observation import InferenceSetSettings

__all__ = ["InferenceSetKind", "InferenceSetSettings"]
