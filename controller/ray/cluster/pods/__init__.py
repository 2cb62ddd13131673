"""The pods of a cluster: their roles, broken and lost ones, creates and deletes."""
