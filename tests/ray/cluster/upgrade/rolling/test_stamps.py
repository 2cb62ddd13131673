"""What pods without a comparable hash are stamped with, whatever the strategy."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.cluster.rolling_units import hides_an_edit
from controller.ray.pods.hashes import UNKNOWN, template_digest
from controller.runtime.plan import MergePatch
from tests.ray.cluster.support import cluster, head, manifest, plan, pod, workers
from tests.ray.cluster.test_plan import settled
from tests.ray.cluster.upgrade.rolling.scenes import (
    observed_object,
    old,
    recorded,
    rolling,
    without_rolling,
)

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


def of_the_present_templates() -> dict[str, str]:
    spec = manifest()["spec"]
    (group,) = spec["workerGroupSpecs"]
    found = {"head": spec["headGroupSpec"], "workers": group}
    return {name: str(template_digest(each)) for name, each in found.items()}


@pytest.mark.parametrize("observed", [GENERATION, None], ids=["seen", "no status yet"])
@pytest.mark.parametrize("hash_", [None, "0-of-an-older-algorithm", "ABC"])
def test_pods_of_the_specification_that_the_status_has_seen_get_its_hash(
    observed: int | None, hash_: str | None
) -> None:
    assert stamps(observed, hash_=hash_) == of_the_present_templates()


def test_pods_count_as_outdated_if_the_specification_was_edited_meanwhile() -> None:
    assert stamps(GENERATION - 1) == {"head": UNKNOWN, "workers": UNKNOWN}


def test_edits_that_an_autoscaler_may_have_made_outdate_nothing() -> None:
    found = stamps(GENERATION - 1, enableInTreeAutoscaling=True)
    assert found == of_the_present_templates()


def test_a_comparable_hash_is_never_changed() -> None:
    assert stamps(GENERATION, hash_="3-of-another-template") == {}


UNKNOWN_POD = pod("b")


def test_an_edit_is_not_seen_before_all_pods_say_what_they_were_made_from():
    def hides(obj: Any, *pods: Pod) -> bool:
        seen = observed_object(obj, *pods)
        return hides_an_edit(seen)

    edited = recorded(rolling(2), observed=0)
    assert hides(edited, UNKNOWN_POD)
    assert not hides(edited, old("a"))
    assert not hides(recorded(rolling(2)), UNKNOWN_POD)
    assert not hides(recorded(without_rolling(2), observed=0), UNKNOWN_POD)
