"""The fields of the types that Kubernetes builds in, and how values fit them."""
