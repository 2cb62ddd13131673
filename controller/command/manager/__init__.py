"""`/manager`: the operator with the command line of KubeRay's, so that only the image changes."""
