"""The common parts of both kubelets: nodes, and the placement and binding of pods."""
