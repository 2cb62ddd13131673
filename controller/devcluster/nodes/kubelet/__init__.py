"""What both kubelets share: nodes, and the placement and binding of pods."""
