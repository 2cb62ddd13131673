"""The pods of a cluster: their roles, which are broken or lost, and their creates and deletes."""
