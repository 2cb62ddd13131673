"""A cluster's children besides its pods: services, ingress, access, secret and claim."""
