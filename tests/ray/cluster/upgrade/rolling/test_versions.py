"""Whether nodes of an image can join a running Ray."""

from __future__ import annotations

import pytest

from controller.ray.cluster.rolling_units import Compatibility, ImageVersion, RunningRay

SAME, DIFFERENT, UNKNOWN = Compatibility.SAME, Compatibility.DIFFERENT, Compatibility.UNKNOWN


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
    assert ImageVersion.of(image) == ImageVersion(ray, python)


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
    image: str, ray_version: str, expected: Compatibility
) -> None:
    running = RunningRay("2.60.0", "rayproject/ray:2.60.0-py310")
    found, why = running.compare(image, ray_version)
    assert found is expected
    assert bool(why) is (expected is DIFFERENT)


def test_nothing_is_known_before_ray_has_said_its_version() -> None:
    running = RunningRay("", "rayproject/ray:2.60.0")
    assert running.compare("rayproject/ray:2.61.0", "2.61.0") == (UNKNOWN, "")
