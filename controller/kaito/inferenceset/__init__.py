"""The InferenceSet kind: replicas of a Workspace.

`kind.py` registers it; `observe.py` gathers an `observation.py`; `plan.py` decides which replicas
are created and which go; `status.py` reports them.
"""

from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.inferenceset.observation import InferenceSetSettings

__all__ = ["InferenceSetKind", "InferenceSetSettings"]
