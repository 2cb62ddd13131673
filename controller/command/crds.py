"""`manta crds`: the CustomResourceDefinitions that Manta serves, ready for `kubectl apply`.

Those of Workspaces and InferenceSets are printed on request: few clusters need them, and Kaito's
own definitions work as well.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec
import yaml

from controller.ray.api import custom_resource_definitions

if TYPE_CHECKING:
    from controller.apimachinery.schema import Definition


def crds(output: str, kind: str = "ray") -> int:
    """Print the definitions as `yaml` or `json` (one List).

    Args:
        output: the format.
        kind: `ray` for all kinds of Ray, or `workspace` for those of Kaito.
    """
    definitions = _of_workspaces() if kind == "workspace" else custom_resource_definitions()
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode() + "\n")
    else:
        sys.stdout.write(yaml.dump_all(definitions, sort_keys=False, Dumper=yaml.CSafeDumper))
    return 0


def _of_workspaces() -> list[Definition]:
    from controller.kaito.api.definitions import kaito_definitions  # noqa: PLC0415  few clusters have them

    return kaito_definitions()
