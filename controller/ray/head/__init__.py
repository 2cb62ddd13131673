"""The head of a Ray cluster as all kinds see it: identity, incarnation, service, watches."""
