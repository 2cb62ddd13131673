"""The API server of `manta plan --offline`, the only part of planning that needs the embedded one.

The production image does not hold the embedded cluster, so it is imported on use.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from controller.apimachinery.schema import Definition
from controller.command.kinds import KindSettings
from controller.command.process import wall
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, ConfigurationError
from controller.kube.resources import CERTIFICATES, CRDS, NAMESPACES, Resource
from controller.ray.api import custom_resource_definitions
from controller.ray.api.batch_schedulers import BatchScheduler
from controller.ray.api.feature_gates import INFERENCE_POOLS, MTLS
from controller.ray.cluster.certificates import OBJECTS


@asynccontextmanager
async def empty_cluster(
    user_agent: str, settings: KindSettings, namespaces: Iterable[str] = ()
) -> AsyncGenerator[Client]:
    """Yield a client of an API server in this process that holds definitions and namespaces only.

    Those of the Gateway API are there too, so that a plan shows what incremental upgrades need,
    and those of the chosen batch scheduler, and Kaito's kinds if Workspaces are served.

    Raises:
        ConfigurationError: the embedded API server is not installed.
    """
    try:
        from devcluster.apiserver import ApiServer  # noqa: PLC0415
        from devcluster.gateway import gateway_api_definitions  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "--offline needs the embedded API server, and this installation leaves it out, as the "
            "production image does. Plan against a cluster, or install Manta from a checkout: "
            "pip install '.[cli]'"
        ) from error
    loop = asyncio.get_running_loop()
    server = ApiServer(wall=wall, clock=loop, rng=random.Random(0))
    client = Client(server, user_agent=user_agent, clock=loop)
    try:
        others = [*gateway_api_definitions(), *group_definitions(settings.ray.batch_scheduler)]
        if settings.ray.feature_gates.enabled(MTLS):
            others += open_definitions(*OBJECTS)
        others += _kaito_definitions(settings) if settings.kaito is not None else ()
        for definition in (*custom_resource_definitions(), *others):
            await client.create(CRDS, "", definition)
        for name in namespaces:
            with suppress(AlreadyExists):
                await client.create(NAMESPACES, "", {"metadata": {"name": name}})
        yield client
    finally:
        await server.aclose()


def _kaito_definitions(settings: KindSettings) -> tuple[Definition, ...]:
    from controller.kaito.api.definitions import kaito_definitions  # noqa: PLC0415
    from controller.kaito.api.inference_pool import INFERENCE_POOLS as POOLS  # noqa: PLC0415
    from devcluster.karpenter import node_claim_definition  # noqa: PLC0415

    has_pools = settings.ray.feature_gates.enabled(INFERENCE_POOLS)
    pools = open_definitions(POOLS) if has_pools else ()
    return (*kaito_definitions(), node_claim_definition(), *pools)


def group_definitions(scheduler: BatchScheduler | None) -> Iterator[Definition]:
    """Return definitions of the scheduler's groups."""
    return open_definitions(*(scheduler.groups if scheduler is not None else ()))


def open_definitions(*resources: Resource[Any]) -> Iterator[Definition]:
    """Yield definitions of others' resources that accept whatever is written."""
    for resource in resources:
        names = {
            "plural": resource.plural,
            "singular": resource.kind.lower(),
            "kind": resource.kind,
        }
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version: dict[str, Any] = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}} if resource is CERTIFICATES else {},
        }
        yield {
            "apiVersion": CRDS.api_version,
            "kind": CRDS.kind,
            "metadata": {"name": str(resource)},
            "spec": {
                "group": resource.group,
                "names": names,
                "scope": "Namespaced",
                "versions": [version],
            },
        }
