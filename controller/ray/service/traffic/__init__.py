"""How requests reach the cluster that serves."""
