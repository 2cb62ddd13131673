"""What a RayCluster asks of rolling updates, and what tells a pod from one of another template."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class RollingWish(Struct, frozen=True):
    """The settings at one generation."""

    surge: int | str
    unavailable: int | str
    parallel: int
    paused: bool

    def surge_of(self, replicas: int) -> int:
        """How many more there may be; percentages are rounded up."""
        return _part(self.surge, replicas, 99)

    def unavailable_of(self, replicas: int) -> int:
        """How many may be missing; percentages are rounded down, but something has to move."""
        part = _part(self.unavailable, replicas, 0)
        return part if part or self.surge_of(replicas) else 1


def rolling_wish_of(strategy: dict[str, Any]) -> RollingWish | None:
    """That of `spec.upgradeStrategy`."""
    if strategy.get("type") != "RollingUpdate":
        return None
    settings = strategy.get("rollingUpdate", {})
    return RollingWish(
        settings.get("maxSurge", 1),
        settings.get("maxUnavailable", 0),
        settings.get("maxParallelGroups", 1),
        settings.get("paused", False),
    )


def edition_of(pod_spec: dict[str, Any]) -> str:
    """What users of the simulation edit: the image, and one variable."""
    ray = pod_spec["containers"][0]
    values = [each["value"] for each in ray.get("env", ()) if each["name"] == "EDITION"]
    return " ".join([ray["image"], *values])


def says_its_version(edition: str) -> bool:
    """Whether the name of the image says which Ray is in it."""
    return edition.startswith("rayproject/ray:2.")


def _part(amount: int | str, replicas: int, rest: int) -> int:
    if isinstance(amount, int):
        return amount
    return (int(amount.removesuffix("%")) * replicas + rest) // 100
