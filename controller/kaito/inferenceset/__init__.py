"""The InferenceSet kind: replicas of a Workspace.

`kind.py` registers it; `observe.py` gathers what it depends on; `plan.py` decides which replicas
are created, which go, and which get a new image or new nodes; `status.py` reports them.
"""
