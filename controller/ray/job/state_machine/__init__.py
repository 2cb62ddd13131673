"""The states of a RayJob, the facts that they depend on, and the table of transitions."""
