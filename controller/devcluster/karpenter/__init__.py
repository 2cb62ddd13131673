"""Karpenter in the embedded cluster: the definition of NodeClaims."""
