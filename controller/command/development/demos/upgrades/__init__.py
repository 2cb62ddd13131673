"""The demo of rolling updates: the cluster that it upgrades, and the job that runs on."""
