"""Pods as processes of this machine: a kubelet, isolation, and the network between the pods."""
