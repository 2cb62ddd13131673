"""Whole objects that RayJobs make, written down after each line was held against KubeRay's rules.

`golden/features` has manifests of our own beside what they make. `golden/samples` has what
KubeRay's own samples make, which lie beside the project where it is developed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ray.job.golden_jobs import made_for
from tests.samples import SAMPLES

GOLDEN = Path(__file__).parent / "golden"
FEATURES = sorted((GOLDEN / "features").glob("*.job.yaml"))
WRITTEN = sorted((GOLDEN / "samples").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return [
        document
        for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        if document
    ]


def made(path: Path) -> list[Any]:
    """What is made for the job in the file, on the cluster in the file if there is one."""
    given = {document["kind"]: document for document in documents(path)}
    return list(made_for(given["RayJob"], given.get("RayCluster")))


@pytest.mark.parametrize("manifest", FEATURES, ids=lambda path: path.name.split(".")[0])
def test_what_a_feature_makes_is_as_written_down(manifest: Path):
    written = manifest.with_name(manifest.name.replace(".job.", ".made."))
    assert made(manifest) == documents(written)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda path: path.stem)
def test_what_a_sample_makes_is_as_written_down(written: Path):
    manifest = SAMPLES / written.name
    if not manifest.exists():
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's samples are not at {SAMPLES}")
    assert made(manifest) == documents(written)


def test_every_sample_of_a_job_with_a_cluster_is_written_down():
    if not SAMPLES.exists():
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's samples are not at {SAMPLES}")
    samples = {path.name for path in SAMPLES.glob("ray-job.*.yaml")}
    on_a_cluster_that_is_there = {"ray-job.use-existing-raycluster.yaml"}
    assert samples == {path.name for path in WRITTEN} | on_a_cluster_that_is_there
