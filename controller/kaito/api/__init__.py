"""The `kaito.sh` kinds: typed views, their CustomResourceDefinitions and their validation."""
