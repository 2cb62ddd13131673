"""The nodes of a Workspace: how many it needs, what it has, and what is written for them."""
