"""Slow look-ups of Workspaces, made in the background: no worker waits for them."""
