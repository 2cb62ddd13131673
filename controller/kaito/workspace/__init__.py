"""The Workspace kind: a model on its own GPU nodes, and a controller that never waits.

`kind.py` registers it; `observe.py` gathers an `observation.py`, with its goal; `plan.py` decides,
deletion too.

- nodes: `nodes.py` (how many, how far, their requests); `kind.py` collects orphans
- the model: `workload.py` (its objects), `model_server.py` (what its pods do)
- edits: `edits.py` (what one changes, its revisions); `watches.py` (what wakes a Workspace)
- status: `status.py`
"""
