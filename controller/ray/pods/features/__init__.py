"""Features of Ray pods, each of which adds its fields to a pod."""
