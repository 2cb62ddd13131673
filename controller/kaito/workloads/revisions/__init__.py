"""The specification that a workload is made from, and those that its Workspace had before."""
