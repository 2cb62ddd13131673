"""Submits a job to Ray: by a Kubernetes Job, a sidecar of the head, or the operator."""
