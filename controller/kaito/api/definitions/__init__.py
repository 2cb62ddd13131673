"""The CustomResourceDefinitions of the `kaito.sh` kinds."""
