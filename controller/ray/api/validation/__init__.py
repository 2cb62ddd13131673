"""Whether an object makes sense: KubeRay's checks, in its order, each with a remedy."""
