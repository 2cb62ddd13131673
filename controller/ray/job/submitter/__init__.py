"""What submits a job to Ray: a Kubernetes Job, a sidecar of the head, or the operator."""
