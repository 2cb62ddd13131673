"""The bodies of everything that a Workspace creates besides nodes, as pure functions.

docs/design.md describes what changes in an existing workload, and when a model server restarts.
"""
