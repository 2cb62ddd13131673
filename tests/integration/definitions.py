"""Changes of the installed definitions: fields that they drop, as those of other versions do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from controller.kube.errors import StatusError
from controller.kube.resources import CRDS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, custom_resource_definitions
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.integration.harness import World, example_cluster

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
    rules = [
        each
        for each in schema.get("x-kubernetes-validations", ())
        if f"self.{path[-1]}" not in each["rule"]
    ]
    schema["x-kubernetes-validations"] = rules  # a server refuses rules about unknown fields
    if path[-1] in schema.get("required", ()):
        schema["required"].remove(path[-1])


RULED: Final = (RAYCLUSTERS, RAYJOBS, RAYSERVICES, RAYCRONJOBS)
_NAME_REFUSED: Final = "under another name"


async def drop_rules(world: World) -> None:
    """Install definitions that refuse nothing by rules, as those of earlier versions."""
    for resource in RULED:
        definition = await world.user.get_raw(CRDS, "", str(resource))
        _without_rules(definition)
        await world.user.replace(CRDS, "", str(resource), definition)
    await _until_judged(world, judged=False)


async def restore_rules(world: World) -> None:
    """Install the operator's definitions again."""
    for resource in RULED:
        await restore_definition(world, name=str(resource))
    await _until_judged(world, judged=True)


async def _until_judged(world: World, *, judged: bool) -> None:
    """Wait for a real server, which reads a changed definition a little later."""
    cluster = example_cluster()["spec"]
    job = {"entrypoint": "python job.py", "rayClusterSpec": cluster}
    specs = cluster, job, {"rayClusterConfig": cluster}, {"schedule": "@daily", "jobTemplate": job}
    for resource, spec in zip(RULED, specs, strict=True):
        odd = {"apiVersion": resource.api_version, "kind": resource.kind}
        odd |= {"metadata": {"name": "1st"}, "spec": spec}

        async def is_so(resource: Resource[Any] = resource, odd: dict[str, Any] = odd) -> bool:
            return (_NAME_REFUSED in await answer_to(world, resource, odd)) is judged

        await world.eventually(is_so)


async def answer_to(world: World, resource: Resource[Any], manifest: dict[str, Any]) -> str:
    """What the server says of a dry run; empty if it would store the object."""
    path = resource.path(world.namespace)
    try:
        await world.user.request_json("POST", path, query={"dryRun": "All"}, body=manifest)
    except StatusError as error:
        return str(error)
    return ""


def _without_rules(node: Any) -> None:
    if isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
        fields.pop("x-kubernetes-validations", None)
        if fields.get("type") == "string":
            fields.pop("maxLength", None)
            fields.pop("pattern", None)
        for each in fields.values():
            _without_rules(each)
    elif isinstance(node, list):
        for each in cast("list[Any]", node):
            _without_rules(each)
