"""Builds head and worker pods: templates, start command, environment, probes."""
