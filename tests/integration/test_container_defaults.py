"""Our definitions have the defaults of a real API server wherever Kueue compares: in containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.ray.api import custom_resource_definitions
from tests.integration.harness import World
from tests.ray.api.definitions.test_definitions import walk

pytestmark = [pytest.mark.real_only, pytest.mark.vital]

POD_SPEC = "io.k8s.api.core.v1.PodSpec"
COMPARED = (".containers.[]", ".initContainers.[]")


async def test_containers_in_pod_templates_have_the_defaults_of_the_api_server(world: World):
    document = await world.user.request_json("GET", "/openapi/v3/api/v1")
    schemas = document["components"]["schemas"]
    wanted = {
        path: default
        for path, default in defaults(schemas, schemas[POD_SPEC])
        if path.startswith(COMPARED) and not (default == "" and path.endswith(".name"))
    }
    assert len(wanted) >= 2 * 5
    templates = 0
    for definition in custom_resource_definitions():
        for version in definition["spec"]["versions"]:
            for path, node in walk(version["schema"]["openAPIV3Schema"]):
                if "initContainers" in node.get("properties", ()):
                    ours = {at: each["default"] for at, each in walk(node) if "default" in each}
                    assert ours == wanted, (definition["metadata"]["name"], path)
                    templates += 1
    assert templates >= 12


def defaults(
    schemas: dict[str, Any], node: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, Any]]:
    """The defaults that the server sets, by path.

    Those of required fields, items and whole structures are what Go has anyway.
    """
    for reference in [each["$ref"] for each in node.get("allOf", ()) if "$ref" in each]:
        yield from defaults(schemas, schemas[reference.rpartition("/")[2]], path)
    if "$ref" in node:
        yield from defaults(schemas, schemas[node["$ref"].rpartition("/")[2]], path)
    for name, child in node.get("properties", {}).items():
        if child.get("default", {}) != {} and name not in node.get("required", ()):
            yield f"{path}.{name}", child["default"]
        yield from defaults(schemas, child, f"{path}.{name}")
    if "items" in node:
        yield from defaults(schemas, node["items"], f"{path}.[]")
