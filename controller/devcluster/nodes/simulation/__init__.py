"""The simulated kubelet: the life of a pod that runs nothing."""
