"""The `ray.io/v1` kinds, wire-compatible with KubeRay."""
