"""All kinds that Manta serves, with their settings from the environment and the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from controller.ray.api import FeatureGates
from controller.ray.api.batch_schedulers import chosen_scheduler
from controller.ray.api.feature_gates import (
    CLUSTER_FLEET,
    CRON_JOB,
    EXISTING_NODES,
    IMAGE_UPGRADE,
    INFERENCE_POOLS,
    INFERENCE_SETS,
    PARTITION_ACCELERATORS,
    PARTITION_MIG,
    VLLM,
    WORKSPACE,
)
from controller.ray.cluster import RayClusterKind
from controller.ray.cronjob import RayCronJobKind
from controller.ray.fleet import RayClusterFleetKind
from controller.ray.job import RayJobKind
from controller.ray.service import RayServiceKind
from controller.ray.settings import CERT_MANAGER, MTLS_ISSUERS, RaySettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.lookups.huggingface import WorkspaceLookups
    from controller.kube.client import Client
    from controller.ray.dashboard.actors import DashboardActors
    from controller.runtime.kind import Kind
    from informers import Clock

_UNLIMITED: Final = 100_000
_WITHOUT_EFFECT: Final = {
    "ENABLE_DETERMINISTIC_HEAD_POD_NAME": "names of heads never come back",
    "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "nothing is polled",
}
"""Variables of KubeRay that change nothing here, with the reason."""

GATED: Final = {
    "RayCronJob": (CRON_JOB,),
    "RayClusterFleet": (CLUSTER_FLEET,),
    "Workspace": (WORKSPACE,),
    "InferenceSet": (WORKSPACE, INFERENCE_SETS),
}
"""The feature gates of kinds that are served only while they are on."""


class KindSettings(Struct, frozen=True):
    """The settings of each kind; all have the same feature gates.

    Those of Kaito's kinds are None while their gate is off, so that nothing of them is loaded.
    `without_effect` are variables that are set and change nothing, with the reason.
    """

    ray: RaySettings = field(default_factory=RaySettings)
    kaito: KaitoOptions | None = None
    without_effect: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def from_environment(
        cls,
        feature_gates: FeatureGates | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        batch_scheduler: str = "",
        legacy_batch_scheduler: bool = False,
        mtls_issuer: str = CERT_MANAGER,
    ) -> KindSettings:
        """Read KubeRay's environment variables, and Kaito's if Workspaces are served.

        `legacy_batch_scheduler` is KubeRay's older flag, which means Volcano.

        Raises:
            ValueError: one has a value that it must not have, or there is no such batch scheduler;
                the message names it.
        """
        if mtls_issuer not in MTLS_ISSUERS:
            known = " and ".join(MTLS_ISSUERS)
            raise ValueError(f"-mtls-issuer={mtls_issuer}: there are {known}")
        gates = feature_gates or FeatureGates()
        scheduler = chosen_scheduler(batch_scheduler, gates, legacy=legacy_batch_scheduler)
        return cls(
            replace(
                RaySettings.from_environment(environment),
                feature_gates=gates,
                mtls_issuer=mtls_issuer,
                batch_scheduler=scheduler,
            ),
            _kaito_options(environment, gates) if gates.enabled(WORKSPACE) else None,
            {
                name: reason
                for name, reason in _WITHOUT_EFFECT.items()
                if environment.get(name, "").lower() not in {"", "false"}
            },
        )


def kinds_of(
    settings: KindSettings,
    dashboards: DashboardActors | None,
    lookups: WorkspaceLookups | None = None,
) -> list[Kind[Any]]:
    """Return every kind, those with a feature gate only if it is on."""
    gates = settings.ray.feature_gates
    kinds: list[Kind[Any]] = []
    for kind in (RayClusterKind, RayJobKind, RayServiceKind):
        actors = [dashboards.for_controller(kind.name)] if dashboards is not None else []
        kinds.append(kind(settings.ray, *actors, *actors))
    if gates.enabled(CRON_JOB):
        kinds.append(RayCronJobKind(settings.ray))
    if gates.enabled(CLUSTER_FLEET):
        kinds.append(RayClusterFleetKind(settings.ray))
    if gates.enabled(WORKSPACE):
        kinds += _kaito_kinds(settings, lookups)
    return kinds


def kinds_to_plan(settings: KindSettings) -> list[Kind[Any]]:
    """Return every kind for `manta plan`: Ray is not asked, but assumed to work.

    Without limits of batches a dry run shows the whole change in few plans.
    """
    ray, kaito = replace(settings.ray, batch=_UNLIMITED), settings.kaito
    kaito = replace(kaito, batch=_UNLIMITED) if kaito is not None else None
    service = RayServiceKind(ray, assumes_serve=True)
    cluster = RayClusterKind(ray, assumes_ray=True)
    assuming = {service.name: service, cluster.name: cluster}
    kinds = kinds_of(replace(settings, ray=ray, kaito=kaito), None)
    return [assuming.get(kind.name, kind) for kind in kinds]


def _kaito_options(environment: Mapping[str, str], gates: FeatureGates) -> KaitoOptions:
    from controller.kaito.api.options import KaitoOptions  # noqa: PLC0415  few clusters have them

    provisioner = environment.get("NODE_PROVISIONER") or "byo"
    if gates.enabled(EXISTING_NODES):
        if provisioner != "byo":
            raise ValueError(
                f"the feature gate {EXISTING_NODES} is on, and NODE_PROVISIONER is "
                f"{provisioner!r}: leave out one of them"
            )
        environment = {**environment, "NODE_PROVISIONER": provisioner}
    return replace(
        KaitoOptions.from_environment(environment),
        vllm=gates.enabled(VLLM),
        mig=gates.enabled(PARTITION_MIG),
        accelerators=gates.enabled(PARTITION_ACCELERATORS),
        auto_upgrade=gates.enabled(IMAGE_UPGRADE),
        inference_pools=gates.enabled(INFERENCE_POOLS),
    )


def workspace_lookups(
    settings: KindSettings, client: Client, clock: Clock
) -> WorkspaceLookups | None:
    """Return the look-ups of Workspaces; None while their feature gate is off."""
    if settings.kaito is None:
        return None
    from controller.kaito.lookups.huggingface import WebReader, WorkspaceLookups  # noqa: PLC0415  few clusters have them

    address = settings.kaito.hugging_face
    return WorkspaceLookups(client, clock, WebReader(address) if address else None)


def _kaito_kinds(settings: KindSettings, lookups: WorkspaceLookups | None) -> Iterator[Kind[Any]]:
    # few clusters have them
    from controller.kaito.inferenceset.kind import InferenceSetKind  # noqa: PLC0415
    from controller.kaito.workspace.kind import WorkspaceKind  # noqa: PLC0415

    yield WorkspaceKind(settings.kaito, lookups=lookups)
    if settings.ray.feature_gates.enabled(INFERENCE_SETS):
        yield InferenceSetKind(settings.kaito)
