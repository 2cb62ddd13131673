"""The head of a Ray cluster, shared by all kinds: identity, incarnation, service, watches."""
