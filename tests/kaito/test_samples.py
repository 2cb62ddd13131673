"""The manifests of Kaito's `examples/`: which are accepted, and what is said of the others.

`MANTA_SAMPLES` names a folder with them; they are not part of this repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from controller.apimachinery.problem import Problem
from controller.kaito.api.definitions.crds import kaito_definitions
from controller.kaito.api.inferenceset import InferenceSet
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.revision import revision_hash
from controller.kaito.api.validation.inferenceset import validate_inference_set
from controller.kaito.api.validation.workspace import validate_workspace
from controller.kaito.api.workspace import Workspace
from controller.kaito.presets import Cloud
from tests import samples

FOLDER = samples.SAMPLES if samples.NAMED else Path("/nonexistent")
PLACEHOLDERS = {
    "<your-vm-sku>": "Standard_NC4_A2",
    "ACR_REPO_HERE": "registry",
    "IMAGE_NAME_HERE": "result",
}
REFUSED = {
    "workspace-tuning-falcon-7b-dolly-oai": "Unsupported tuning preset name falcon-7b",
    "workspace-tuning-falcon-7b-oai-chatbot": "Unsupported tuning preset name falcon-7b",
    "workspace-phi-3-mini-adapter": "vLLM does not support adapter strength",
}
"""Manifests that Kaito's webhook refuses too."""

SCHEMAS = {
    (each["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
    for each in kaito_definitions()
    for version in each["spec"]["versions"]
}


def read(file: Path) -> list[dict[str, Any]]:
    text = file.read_text()
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(placeholder, value)
    documents = yaml.load_all(text, Loader=yaml.CSafeLoader)
    return [each for each in documents if each and each["kind"] in {"Workspace", "InferenceSet"}]


SAMPLES = [
    pytest.param(file, raw, id=f"{file.parent.name}/{file.stem}")
    for file in sorted(FOLDER.rglob("kaito_*.yaml"))
    for raw in read(file)
]


@pytest.mark.skipif(not SAMPLES, reason="MANTA_SAMPLES names no folder with Kaito's examples")
@pytest.mark.parametrize(("file", "raw"), SAMPLES)
def test_kaitos_examples_are_accepted_or_refused_as_by_kaito(file: Path, raw: dict[str, Any]):
    version = raw["apiVersion"].partition("/")[2]
    jsonschema.validate(raw, SCHEMAS[raw["kind"], version])
    resource = raw.get("resource") or raw["spec"]["template"].get("resource", {})
    options = KaitoOptions(
        cloud=Cloud.ARC if "arc" in file.parent.name else Cloud.AZURE,
        provisioner=(
            Provisioner.NODE_CLAIMS if "instanceType" in resource else Provisioner.OWN_NODES
        ),
        mig=True,
        accelerators=True,
    )
    if raw["kind"] == "Workspace":
        workspace = msgspec.convert(raw, Workspace)
        found = validate_workspace(workspace, options)
        assert len(revision_hash(workspace)) == 64
    else:
        found = validate_inference_set(msgspec.convert(raw, InferenceSet), options)
    message = found.message if isinstance(found, Problem) else ""
    words = REFUSED.get(raw["metadata"]["name"], "")
    assert words in message
    assert bool(words) is bool(message), message
