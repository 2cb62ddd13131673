"""Karpenter in the embedded cluster: the definition of NodeClaims, and a simulated provisioner."""
