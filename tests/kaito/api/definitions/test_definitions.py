"""The definitions of the `kaito.sh` kinds: every field, column and version of Kaito's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kaito.api.definitions import kaito_definitions

KAITO_CRDS = Path(os.environ.get("MANTA_KAITO_CRDS", ""))
"""A folder with Kaito's definitions: its `config/crd/bases`."""

SAME = ("type", "format", "default", "minimum", "required")
DEFINITIONS = {each["spec"]["names"]["kind"]: each for each in kaito_definitions()}


def rows(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, Any]]:
    for keyword in SAME:
        if keyword in schema:
            value = schema[keyword]
            yield path, keyword, tuple(sorted(value)) if isinstance(value, list) else value
    for name, child in schema.get("properties", {}).items():
        yield from rows(child, f"{path}.{name}")
    if "items" in schema:
        yield from rows(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from rows(schema["additionalProperties"], f"{path}{{}}")


def versions(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in definition["spec"]["versions"]}


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_both_versions_are_served_and_the_newer_is_stored(kind: str):
    found = versions(DEFINITIONS[kind])
    assert {name: each["storage"] for name, each in found.items()} == {
        "v1alpha1": False,
        "v1beta1": True,
    }
    assert all(each["served"] and "status" in each["subresources"] for each in found.values())


def test_names_are_those_that_users_type():
    names = {kind: each["spec"]["names"]["shortNames"] for kind, each in DEFINITIONS.items()}
    assert names == {"Workspace": ["wk", "wks"], "InferenceSet": ["is", "isets"]}
    assert {each["metadata"]["name"] for each in DEFINITIONS.values()} == {
        "workspaces.kaito.sh",
        "inferencesets.kaito.sh",
    }


def test_an_old_client_loses_no_field_of_the_newer_version():
    schemas = [
        each["schema"]["openAPIV3Schema"] for each in versions(DEFINITIONS["Workspace"]).values()
    ]
    old, new = (set(rows(each)) for each in schemas)
    assert old - new == {(".resource.instanceType", "default", "Standard_NC24ads_A100_v4")}
    assert new <= old


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_what_has_the_fields_of_pods_says_where_they_are_explained(kind: str):
    schema = versions(DEFINITIONS[kind])["v1beta1"]["schema"]["openAPIV3Schema"]
    found = dict(kept_whole(schema))
    assert {path.rpartition(".")[2] for path in found} == {"template", "volumeSource"}
    for path, description in found.items():
        of_volume = path.endswith("volumeSource")
        where = "pod.spec.volumes" if of_volume else "pod.spec`"
        assert f"kubectl explain {where}" in description


def kept_whole(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and description of what is part of a pod, whose fields are not listed."""
    if path.endswith(("inference.template", "volumeSource")):
        yield path, schema["description"]
        return
    for name, child in schema.get("properties", {}).items():
        yield from kept_whole(child, f"{path}.{name}")
    if "items" in schema:
        yield from kept_whole(schema["items"], f"{path}[]")


def test_a_workspace_has_no_spec():
    schema = versions(DEFINITIONS["Workspace"])["v1beta1"]["schema"]["openAPIV3Schema"]
    assert set(schema["properties"]) == {
        *("apiVersion", "kind", "metadata", "status"),
        *("resource", "inference", "tuning"),
    }


@pytest.mark.skipif(not KAITO_CRDS.name, reason="MANTA_KAITO_CRDS names no folder")
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_the_contract_is_kaitos(kind: str):
    ours = DEFINITIONS[kind]
    plural = ours["spec"]["names"]["plural"]
    file = KAITO_CRDS / f"kaito.sh_{plural}.yaml"
    theirs = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    assert theirs["spec"]["names"] == ours["spec"]["names"]
    mine, upstream = versions(ours)["v1beta1"], versions(theirs)["v1beta1"]
    for part in ("additionalPrinterColumns", "subresources"):
        assert mine[part] == upstream[part]
    found = dict(_keyed(mine))
    for key, value in _keyed(upstream):
        assert found.pop(key) == value, key
    assert {path for path, _ in found} <= {
        *(".inference.template", ".inference.adapters[].source.volumeSource"),
        *(".tuning.input.volumeSource", ".tuning.output.volumeSource"),
        *(".spec.template.metadata", ".spec.updateStrategy", ".spec.template.inference.template"),
        ".spec.template.inference.adapters[].source.volumeSource",
    }


def _keyed(version: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    for path, keyword, value in rows(version["schema"]["openAPIV3Schema"]):
        yield (path, keyword), value
