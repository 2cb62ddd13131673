"""`manta crds`: the CustomResourceDefinitions that Manta serves, ready for `kubectl apply -f -`."""

from __future__ import annotations

import sys

import msgspec
import yaml

from controller.ray.api import custom_resource_definitions


def crds(output: str) -> int:
    """Print the definitions as `yaml` or `json` (one List)."""
    definitions = custom_resource_definitions()
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode() + "\n")
    else:
        sys.stdout.write(yaml.dump_all(definitions, sort_keys=False, Dumper=yaml.CSafeDumper))
    return 0
