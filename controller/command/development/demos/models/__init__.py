"""The demo of Workspaces: a model server, its cloud, and the referee that sees every write."""
