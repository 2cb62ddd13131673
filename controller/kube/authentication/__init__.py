"""The address of an API server, and the means to authenticate to it."""
