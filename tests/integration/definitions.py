"""Changes of the installed definitions: fields that they drop, as those of other versions do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.resources import CRDS
from controller.ray.api import custom_resource_definitions
from tests.integration.harness import World

RAYCLUSTERS_CRD = "rayclusters.ray.io"
RAYJOBS_CRD = "rayjobs.ray.io"
RAYCRONJOBS_CRD = "raycronjobs.ray.io"
RAYSERVICES_CRD = "rayservices.ray.io"


async def drop_fields(world: World, *paths: str, name: str = RAYCLUSTERS_CRD) -> None:
    """Install a definition whose stored version lacks these fields, such as `spec.suspend`."""
    definition = await world.user.get_raw(CRDS, "", name)
    for path in paths:
        _drop(definition, path.split("."))
    await world.user.replace(CRDS, "", name, definition)


async def restore_definition(
    world: World, *, without: Iterable[str] = (), name: str = RAYCLUSTERS_CRD
) -> None:
    """Install the operator's definition of a kind again, but for these fields."""
    definition = await world.user.get_raw(CRDS, "", name)
    [own] = [each for each in custom_resource_definitions() if each["metadata"]["name"] == name]
    definition["spec"]["versions"] = own["spec"]["versions"]
    for path in without:
        _drop(definition, path.split("."))
    await world.user.replace(CRDS, "", name, definition)


def kuberays_definition(kind: str = "rayclusters") -> dict[str, Any]:
    """KubeRay's definition of a kind; skips the test where there is none."""
    folder = Path(os.environ.get("MANTA_KUBERAY_CRDS", Path(__file__).parents[3] / "shared/crds"))
    file = folder / f"ray.io_{kind}.yaml"
    if not file.exists():
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's definitions are not at {folder}")
    return yaml.load(file.read_text(), Loader=yaml.CSafeLoader)


async def put_in_place(world: World, theirs: dict[str, Any]) -> None:
    """Have this definition in the place of ours."""
    name = theirs["metadata"]["name"]
    present = await world.user.get_raw(CRDS, "", name)
    await world.user.replace(CRDS, "", name, present | {"spec": theirs["spec"]})


def _drop(definition: dict[str, Any], path: list[str]) -> None:
    versions = definition["spec"]["versions"]
    [schema] = [v["schema"]["openAPIV3Schema"] for v in versions if v["storage"]]
    for part in path[:-1]:
        schema = schema["properties"][part]
        schema = schema.get("items", schema)
    del schema["properties"][path[-1]]
    if path[-1] in schema.get("required", ()):
        schema["required"].remove(path[-1])
