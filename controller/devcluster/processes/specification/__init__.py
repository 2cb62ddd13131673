"""The specification of a pod, and the commands, variables and programs that follow from it."""
