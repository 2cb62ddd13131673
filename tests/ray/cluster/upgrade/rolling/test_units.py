"""How pods are read as units of a rolling replacement, and what Ray says of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.kube.objects import Pod
from controller.ray.cluster.observation import ClusterObservation, DrainMemory, PodHistory
from controller.ray.cluster.rolling_units import (
    compare,
    image_versions,
)
from controller.ray.cluster.rollout import GroupUpgrade, RayView
from controller.ray.dashboard.client import RayNode
from controller.ray.dashboard.commands import CommandExpired, CommandRefused
from controller.ray.rolling import Unit
from tests.ray.cluster.upgrade.rolling.scenes import (
    ADDRESS,
    answering,
    decided,
    draining,
    observed,
    old,
    rolling,
    the_dashboard,
    the_head,
    upgrading,
)

ALIVE = RayNode("n1", ADDRESS, alive=True)
DEAD = RayNode("n1", ADDRESS, alive=False)


def units(seen: ClusterObservation) -> GroupUpgrade:
    return decided(seen).groups["workers"]


def the_unit(*pods: Pod, raw: dict[str, Any] | None = None, **changes: Any) -> Unit:
    """The one unit that these workers are read as."""
    raw = raw or rolling(1)
    seen = observed(raw, the_head(raw), *pods, conditions=(upgrading(),), **changes)
    (found,) = units(seen).group.units
    return found


def test_a_running_pod_that_ray_has_never_listed_holds_no_work():
    raw = rolling(1)
    ray = answering(head_pod=the_head(raw))
    worker = old("a", ready=False)
    assert not the_unit(worker, ray=ray).joined
    assert the_unit(worker, ray=answering(DEAD, head_pod=the_head(raw))).joined


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": None},
        {"head": None},
        {"head_pod": None},
        {"head": the_dashboard(restarts=1)},
        {"head_pod": the_head(rolling(1), created="2026-08-20T09:30:00Z")},
        {"assumed": True},
    ],
    ids=["silent", "no head", "no pod", "restarted head", "younger head", "assumed"],
)
def test_only_an_older_head_that_answers_says_that_a_pod_never_joined(changes: dict[str, Any]):
    ray = replace(answering(head_pod=the_head(rolling(1))), **changes)
    assert not ray.never_joined(old("a"))


def test_a_pod_without_an_address_or_a_time_of_its_creation_has_no_node():
    ray = answering(ALIVE)
    assert ray.node_of(old("a")) == ALIVE
    assert ray.node_of(old("a", node="")) is None
    assert ray.node_of(old("a", created="")) is None
    assert RayView().node_of(old("a")) is None


# -- drains ------------------------------------------------------------------------------------


def told(outcome: Any, **nodes: str) -> dict[str, Any]:
    """Ray was told to drain these nodes, by id; the command `c` has ended like this."""
    drains = {"c": outcome} if outcome is not None else {}
    memory = DrainMemory(the_dashboard(), nodes)
    return {"ray": answering(ALIVE, drains=drains), "history": PodHistory(drains=memory)}


def test_a_drain_that_ray_refuses_is_not_waited_for():
    leaving = old("a", annotations=draining())
    assert the_unit(leaving, **told(CommandRefused("no such command"), n1="c")).drained
    assert not the_unit(leaving, **told(CommandExpired("no answer"), n1="c")).drained
    assert not the_unit(leaving, **told(None, n1="c")).drained
    assert not the_unit(leaving, **told(CommandRefused("no such command"), n2="c")).drained
    assert not the_unit(leaving, ray=answering()).drained


# -- asking Ray --------------------------------------------------------------------------------


SAME, DIFFERENT, UNKNOWN = (True, False), (True, True), (False, False)
"""Whether it is known if nodes of an image can join, and whether they cannot."""


@pytest.mark.parametrize(
    ("image", "ray", "python"),
    [
        ("rayproject/ray:2.60.0", "2.60.0", ""),
        ("rayproject/ray-ml:2.60.0-py310-gpu", "2.60.0", "310"),
        ("registry.example.com:5000/mirror/ray-llm:2.60.0.abc123-py312-cu128", "2.60.0", "312"),
        ("rayproject/ray:2.60.0@sha256:abc", "2.60.0", ""),
        ("rayproject/ray:nightly", "", ""),
        ("rayproject/ray:2.60.0rc1", "", ""),
        ("rayproject/ray", "", ""),
        ("example.com/mine:2.60.0", "", ""),
        ("", "", ""),
    ],
)
def test_only_rays_own_images_say_their_version(image: str, ray: str, python: str) -> None:
    assert image_versions(image) == (ray, python)


@pytest.mark.parametrize(
    ("image", "ray_version", "expected"),
    [
        ("rayproject/ray:2.60.0-py310", "", SAME),
        ("rayproject/ray:2.60.0-py310", "2.1.0", SAME),  # the very image that runs
        ("rayproject/ray:2.60.0-py310-gpu", "", SAME),
        ("rayproject/ray:2.60.0-py311", "", DIFFERENT),
        ("rayproject/ray:2.61.0-py310", "", DIFFERENT),
        ("rayproject/ray:2.61.0-py310", "2.60.0", DIFFERENT),
        ("example.com/mine:1", "", UNKNOWN),
        ("example.com/mine:1", "2.60.0", SAME),
        ("example.com/mine:1", "2.61.0", DIFFERENT),
    ],
)
def test_images_are_compared_with_what_runs(
    image: str, ray_version: str, expected: tuple[bool, bool]
) -> None:
    of_head = "rayproject/ray:2.60.0-py310"
    is_known, why = compare(image, ray_version, running="2.60.0", head_image=of_head)
    assert (is_known, bool(why)) == expected
