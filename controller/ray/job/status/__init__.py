"""The status of a RayJob: its conditions, messages, attempts and metrics."""
