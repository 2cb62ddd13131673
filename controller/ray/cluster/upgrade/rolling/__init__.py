"""`upgradeStrategy: RollingUpdate`: pods are replaced within a budget, while the cluster works.

`decision.py` decides; creates and deletes go through the usual code of the workers.
"""
