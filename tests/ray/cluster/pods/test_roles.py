"""What a pod is: its name tells, and stays; its labels are anybody's to write."""

from __future__ import annotations

import pytest

from controller.ray.cluster.pods import sort_by_role
from tests.ray.cluster.support import pod

GROUPS = ("small", "Large")


def role(name: str, **labelled: str) -> str:
    found = {"ray.io/node-type": "worker"}
    found |= {f"ray.io/{key.replace('_', '-')}": value for key, value in labelled.items()}
    sorted_pods = sort_by_role("c", GROUPS, [pod(name, labels=found)])
    if sorted_pods.heads:
        return "head"
    (group,) = sorted_pods.workers
    return group


@pytest.mark.parametrize(
    ("name", "labelled", "expected"),
    [
        ("c-small-worker-abcde", {"group": "small"}, "small"),
        ("c-small-worker-abcde", {"group": "smal"}, "small"),
        ("c-small-worker-abcde", {"group": "Large"}, "small"),
        ("c-large-worker-abcde", {"group": "small"}, "Large"),
        ("c-small-worker-abcde", {"group": "headgroup"}, "small"),
        ("c-small-worker-abcde", {"group": "small", "node_type": "head"}, "small"),
        ("c-head-abcde", {"group": "small"}, "head"),
        ("c-gone-worker-abcde", {"group": "gone"}, "gone"),
        ("c-gone-worker-abcde", {"group": "small"}, "small"),
        ("older-name-of-a-worker", {"group": "gone"}, "gone"),
        ("c-head", {"group": "headgroup", "node_type": "head"}, "head"),
        ("c-small-worker-abcde", {"group": ""}, "small"),
        ("c-small-worker-abcde", {"group": "", "node_type": ""}, "small"),
        ("c-head-abcde", {"group": "", "node_type": ""}, "head"),
        ("older-name-of-a-worker", {"group": ""}, ""),
    ],
)
def test_the_name_decides_unless_it_tells_nothing_certain(
    name: str, labelled: dict[str, str], expected: str
):
    assert role(name, **labelled) == expected


def test_a_name_that_fits_two_groups_tells_nothing():
    found = {"ray.io/node-type": "worker", "ray.io/group": "A"}
    sorted_pods = sort_by_role("c", ("a", "A"), [pod("c-a-worker-abcde", labels=found)])
    assert list(sorted_pods.workers) == ["A"]
    assert sorted_pods.relabelled == ()


def test_a_pod_without_a_label_whose_name_fits_two_groups_is_of_unknown_role():
    found = {"ray.io/node-type": "worker", "ray.io/group": ""}
    sorted_pods = sort_by_role("c", ("a", "A"), [pod("c-a-worker-abcde", labels=found)])
    assert sorted_pods.unknown == ("pod c-a-worker-abcde lost the label ray.io/group",)
    assert [each.metadata.name for each in sorted_pods.workers[""]] == ["c-a-worker-abcde"]
