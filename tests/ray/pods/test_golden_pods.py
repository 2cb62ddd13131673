"""Whole pods, written down after each line was held against KubeRay's rules.

`golden/features` has manifests of our own beside their pods. `golden/samples` has the pods of
KubeRay's own samples, which lie beside the project where it is developed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ray.pods.golden_pods import built_pods

GOLDEN = Path(__file__).parent / "golden"
FEATURES = sorted((GOLDEN / "features").glob("*.cluster.yaml"))
SAMPLES = Path(__file__).parents[4] / "shared" / "samples"
REFUSED = {"ray-cluster.network-policy-deny-all.yaml"}
SAMPLE_PODS = sorted((GOLDEN / "samples").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return [
        document
        for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        if document
    ]


def the_cluster(path: Path) -> dict[str, Any]:
    (cluster,) = [each for each in documents(path) if each["kind"] == "RayCluster"]
    return cluster


@pytest.mark.parametrize("manifest", FEATURES, ids=lambda path: path.name.split(".")[0])
def test_the_pods_of_a_feature_are_as_written_down(manifest: Path):
    written = manifest.with_name(manifest.name.replace(".cluster.", ".pods."))
    assert list(built_pods(the_cluster(manifest))) == documents(written)


@pytest.mark.parametrize("written", SAMPLE_PODS, ids=lambda path: path.stem)
def test_the_pods_of_a_sample_are_as_written_down(written: Path):
    manifest = SAMPLES / written.name
    if not manifest.exists():
        pytest.skip("KubeRay's samples do not lie beside the project")
    assert list(built_pods(the_cluster(manifest))) == documents(written)


def test_every_sample_of_a_cluster_has_its_pods_written_down():
    if not SAMPLES.exists():
        pytest.skip("KubeRay's samples do not lie beside the project")
    samples = {path.name for path in SAMPLES.glob("ray-cluster*.yaml")}
    assert samples - REFUSED == {path.name for path in SAMPLE_PODS}
