"""The `kaito.sh` kinds: models that are served or tuned on GPU nodes of their own."""
