"""What a cluster has besides its pods: services, ingress, access, secret and claim."""
