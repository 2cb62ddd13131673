"""Users' manifests and KubeRay's definitions, which lie beside the project where it is developed.

`MANTA_SAMPLES` names another folder of manifests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

SHARED: Final = Path(__file__).parents[2] / "shared"
THEIR_CRDS: Final = SHARED / "crds"
NAMED: Final = os.environ.get("MANTA_SAMPLES", "")


def _samples() -> Path:
    if NAMED and not Path(NAMED).is_dir():
        raise FileNotFoundError(f"MANTA_SAMPLES: there is no folder {NAMED}")
    return Path(NAMED) if NAMED else SHARED / "samples"


SAMPLES: Final = _samples()
"""The manifests; the folder may be missing unless it is named."""

CASES: Final = SHARED / "cases"
"""Manifests of field reports."""


def documents() -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Yield each file of the samples with its documents."""
    for path in sorted(SAMPLES.rglob("*.yaml")):
        try:
            yield path, list(filter(None, yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)))
        except yaml.YAMLError:
            continue  # a template of something else


def case(name: str) -> list[dict[str, Any]]:
    """The documents of a field report; the test is skipped where it is missing."""
    file = CASES / name
    if not file.exists():
        pytest.skip(f"{file} is missing: the manifests of field reports are not part of Manta")
    return list(yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader))
