"""Why an object is not ready: reasons, and what pods, containers and writes say about it."""
