"""The states of a RayJob, the facts that move it, and the table of transitions."""
