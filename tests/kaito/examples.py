"""The manifests of Kaito's `examples/`, and the settings of an operator for each.

`MANTA_SAMPLES` names a folder with them; they are not part of this repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from _pytest.mark import ParameterSet

from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.presets.gpus import Cloud
from tests import samples

Json = dict[str, Any]

REFUSED: Final = {
    "workspace-tuning-falcon-7b-dolly-oai": "Unsupported tuning preset name falcon-7b",
    "workspace-tuning-falcon-7b-oai-chatbot": "Unsupported tuning preset name falcon-7b",
    "workspace-phi-3-mini-adapter": "vLLM does not support adapter strength",
}
"""Manifests that Kaito's webhook refuses too."""

_FOLDER: Final = samples.SAMPLES if samples.NAMED else Path("/nonexistent")
_KINDS: Final = ("Workspace", "InferenceSet")
_PLACEHOLDERS: Final = {
    "<your-vm-sku>": "Standard_NC4_A2",
    "<your-arc-node-name>": "own",
    "ACR_REPO_HERE": "registry",
    "IMAGE_NAME_HERE": "result",
    "<your_base64_encoded_huggingface_token>": "dG9rZW4=",
    "<base64-encoded-huggingface-token>": "dG9rZW4=",
}


def documents(file: Path) -> list[Json]:
    """All documents of a manifest, with values in place of what users are to fill in."""
    text = file.read_text()
    for placeholder, value in _PLACEHOLDERS.items():
        text = text.replace(placeholder, value)
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def options_of(file: Path, raw: Json) -> KaitoOptions:
    """The settings of an operator for which this manifest was written."""
    resource = raw.get("resource") or raw["spec"]["template"].get("resource", {})
    return KaitoOptions(
        cloud=Cloud.ARC if "arc" in file.parent.name else Cloud.AZURE,
        provisioner=(
            Provisioner.NODE_CLAIMS if "instanceType" in resource else Provisioner.OWN_NODES
        ),
        mig=True,
        accelerators=True,
    )


_FOUND: Final = [
    (file, raw)
    for file in sorted(_FOLDER.rglob("kaito_*.yaml"))
    for raw in documents(file)
    if raw["kind"] in _KINDS
]


def cases(kind: str = "", folder: str = "") -> list[ParameterSet]:
    """File and document of each object, or only of those of a kind or in folders of such a name."""
    return [
        pytest.param(file, raw, id=f"{file.parent.name}/{file.stem}")
        for file, raw in _FOUND
        if kind in {"", raw["kind"]} and folder in file.parent.name
    ]


need_samples = pytest.mark.skipif(
    not _FOUND, reason="MANTA_SAMPLES names no folder with Kaito's examples"
)
