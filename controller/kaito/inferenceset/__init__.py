"""The InferenceSet kind: replicas of a Workspace.

`kind.py` registers it; `observe.py` gathers an `observation.py`; `plan.py` decides which replicas
are created and which go; `status.py` reports them.
"""
