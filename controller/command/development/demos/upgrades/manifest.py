"""The RayCluster that a demo upgrades, and the edits that it makes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from controller.command.manifests import load_one
from controller.kube.errors import ConfigurationError
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.fields.upgrade_strategy import RayClusterUpgradeStrategy

if TYPE_CHECKING:
    from pathlib import Path

    from controller.ray.api.fields.upgrade_strategy import RollingUpdate

Json = dict[str, Any]

VERSION = "example.dev/version"
"""The label of worker templates that an edit changes."""


class _Group(msgspec.Struct, rename="camel"):
    group_name: str
    replicas: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    worker_group_specs: list[_Group]
    upgrade_strategy: RayClusterUpgradeStrategy = RayClusterUpgradeStrategy()


@dataclass(frozen=True, slots=True)
class RollingManifest:
    """The documents of a manifest.

    Attributes:
        cluster: the RayCluster.
        others: what it needs.
        options: options of its rolling update.
        sizes: replicas of each group.
    """

    cluster: Json
    others: list[Json]
    options: RollingUpdate
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        """Name of the RayCluster."""
        return str(self.cluster["metadata"]["name"])

    def at(self, version: str) -> Json:
        """Return the specification with this version of all workers."""
        spec = copy.deepcopy(self.cluster["spec"])
        for group in spec["workerGroupSpecs"]:
            group["template"]["metadata"]["labels"][VERSION] = version
        return spec


def read_manifest(path: Path) -> RollingManifest:
    """Read a manifest.

    Raises:
        ConfigurationError: it cannot be played with.
    """
    cluster, others = load_one(path, RAYCLUSTERS)
    try:
        spec = msgspec.convert(cluster["spec"], _Spec)
        options = spec.upgrade_strategy.rolling
        if options is None:
            raise ConfigurationError(f"{path} has no upgradeStrategy of type RollingUpdate")
        sizes = {group.group_name: group.replicas for group in spec.worker_group_specs}
        manifest = RollingManifest(cluster, others, options, sizes)
        manifest.at("v1")
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} cannot be played with: the template of each worker group needs a label "
            f"{VERSION} ({error})"
        ) from error
    if len(sizes) < 2 or min(sizes.values()) < 2:
        raise ConfigurationError(f"{path} has fewer than two groups of at least two workers")
    return manifest
