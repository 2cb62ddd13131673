"""Validation of the Ray kinds: KubeRay's checks in its order, each with a remedy."""
