"""Whole objects that RayServices create, written down after each line was held against KubeRay's.

`golden/features` has manifests of our own beside what is created for them. `golden/samples` has
what is created for KubeRay's own samples, which lie beside the project where it is developed. What
differs from KubeRay on purpose stands in docs/compatibility.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ray.service.golden_services import created_for
from tests.samples import SAMPLES

GOLDEN = Path(__file__).parent / "golden"
FEATURES = sorted((GOLDEN / "features").glob("*.service.yaml"))
WRITTEN = sorted((GOLDEN / "samples").glob("*.yaml"))
WITHOUT_SAMPLES = f"SKIPPED, NOT PASSED: KubeRay's samples are not at {SAMPLES}"


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if each]


def created(path: Path, *, second: bool = False) -> list[dict[str, Any]]:
    """What is created for the RayService in the file."""
    (service,) = (each for each in documents(path) if each["kind"] == "RayService")
    return list(created_for(service, second=second))


@pytest.mark.parametrize("manifest", FEATURES, ids=lambda path: path.name.split(".")[0])
def test_what_is_created_for_a_feature_is_as_written_down(manifest: Path):
    written = manifest.with_name(manifest.name.replace(".service.", ".created."))
    assert created(manifest, second=manifest.name.startswith("second")) == documents(written)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda path: path.stem)
def test_what_is_created_for_a_sample_is_as_written_down(written: Path):
    manifest = SAMPLES / written.name
    if not manifest.exists():
        pytest.skip(WITHOUT_SAMPLES)
    assert created(manifest) == documents(written)


def test_every_sample_of_a_service_is_written_down():
    if not SAMPLES.exists():
        pytest.skip(WITHOUT_SAMPLES)
    assert {path.name for path in SAMPLES.glob("ray-service.*.yaml")} == {
        path.name for path in WRITTEN
    }
