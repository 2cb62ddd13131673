"""What pods without a comparable hash are stamped with, whatever the strategy."""

from __future__ import annotations

from typing import Any

from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.runtime.plan import MergePatch
from tests.ray.cluster.support import cluster, head, manifest, plan, workers
from tests.ray.cluster.test_plan import settled

GENERATION = 4


def stamps(observed: int | None, *, hash_: str | None = None, **spec: Any) -> dict[str, str]:
    """The hashes that pods get, by name, once the status has seen this generation."""
    raw = manifest()
    raw["metadata"]["generation"] = GENERATION
    raw["spec"] |= spec
    raw["status"] = {"observedGeneration": observed} if observed is not None else {}
    annotations = {labels.TEMPLATE_HASH: hash_} if hash_ else None
    pods = (head(annotations=annotations), *workers(1, annotations=annotations))
    made = plan(settled(cluster(raw), *pods))
    patches = [w for w in made.independent if isinstance(w, MergePatch)]
    return {
        patch.target.name.split("-")[1]: patch.patch["metadata"]["annotations"].get(
            labels.TEMPLATE_HASH
        )
        for patch in patches
        if patch.target.resource is PODS
    }


def test_a_comparable_hash_is_never_changed() -> None:
    assert stamps(GENERATION, hash_="3-of-another-template") == {}
