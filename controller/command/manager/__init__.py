"""`/manager`: the operator under the command line of KubeRay's, so that only the image changes."""
