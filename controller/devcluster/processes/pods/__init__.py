"""Pods: each runs from its start on this node to its removal from the API server."""
