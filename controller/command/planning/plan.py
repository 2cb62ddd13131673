"""`manta plan`: read manifests, ask the API server, rehearse, print."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

import controller
from controller.command.clock import wall
from controller.command.manifests import load
from controller.command.operator import cluster_settings
from controller.command.planning import source
from controller.command.planning.outcome import ClusterPlan, edits_of, items_of
from controller.command.planning.rehearsal import rehearse
from controller.command.planning.snapshot import Snapshot
from controller.command.planning.text import write_text
from controller.devcluster.apiserver import ApiServer
from controller.kube.client import Client
from controller.kube.credentials import load_credentials
from controller.kube.errors import ConfigurationError, KubeError, StatusError
from controller.kube.http import HttpTransport
from controller.kube.resources import CRDS
from controller.ray.api import RAYCLUSTERS, Problem, custom_resource_definitions
from controller.ray.api.raycluster import conditions_of
from controller.ray.cluster import RayClusterKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from datetime import datetime
    from pathlib import Path

    from controller.ray.api import FeatureGates
    from controller.ray.cluster import ClusterSettings

Json = dict[str, Any]
USER_AGENT = f"manta-plan/{controller.__version__}"

MOST_PODS = 100_000
"""Pods that one plan may create here: all at once, where the operator goes batch by batch."""

_WORTH_A_NOTE = ("FeaturesSupported", "PodsUpToDate")
"""Conditions that, when False, tell what a user would not expect."""


async def plan(
    file: Path,
    *,
    namespace: str,
    offline: bool,
    feature_gates: FeatureGates,
    kubeconfig: str | None,
    context: str | None,
    output: Literal["text", "json"],
) -> int:
    """Print what applying `file` would lead to; returns the exit status.

    Args:
        file: a manifest, or a folder of them; only RayClusters are looked at.
        namespace: for manifests that name none.
        offline: plan for an empty cluster instead of asking one.
        feature_gates: as the operator has them.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.
        output: text for people or JSON for programs.

    Raises:
        ConfigurationError: unusable file, credentials or API server.
    """
    manifests = list(_clusters(load(file)))
    if not manifests:
        raise ConfigurationError(f"{file} holds no RayCluster of ray.io/v1")
    settings = replace(cluster_settings(feature_gates), batch=MOST_PODS)
    opened = _embedded() if offline else _connected(kubeconfig, context)
    async with opened as client:
        try:
            plans = [
                await plan_one(client, manifest, namespace, settings) for manifest in manifests
            ]
        except KubeError as error:
            raise ConfigurationError(f"cannot ask the cluster: {error}") from error
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode({"clusters": plans}), indent=2)
        sys.stdout.write(f"{text.decode()}\n")
    else:
        write_text(plans, sys.stdout)
    return 1 if any(each.problem for each in plans) else 0


def _clusters(documents: list[Json]) -> Iterator[Json]:
    for document in documents:
        if document.get("kind") == "RayCluster":
            yield document
        else:
            meta: Json = document.get("metadata") or {}
            name = meta.get("name", "without name")
            sys.stderr.write(f"manta plan: left out {document.get('kind')} {name}\n")


@asynccontextmanager
async def _connected(kubeconfig: str | None, context: str | None) -> AsyncGenerator[Client]:
    try:
        credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; --offline plans without a cluster") from error
    transport = HttpTransport(credentials, user_agent=USER_AGENT)
    try:
        yield Client(transport, user_agent=USER_AGENT, clock=asyncio.get_running_loop())
    finally:
        await transport.aclose()


@asynccontextmanager
async def _embedded() -> AsyncGenerator[Client]:
    loop = asyncio.get_running_loop()
    server = ApiServer(wall=wall, clock=loop, rng=random.Random(0))
    client = Client(server, user_agent=USER_AGENT, clock=loop)
    try:
        for crd in custom_resource_definitions():
            await client.create(CRDS, "", crd)
        yield client
    finally:
        await server.aclose()


async def plan_one(
    client: Client, manifest: Json, default_namespace: str, settings: ClusterSettings
) -> ClusterPlan:
    """The plan for one manifest against the API server behind `client`.

    Raises:
        KubeError: the server could not be asked. What it refuses is the plan's `problem`.
    """
    meta: Json = manifest.get("metadata") or {}
    namespace: str = meta.get("namespace") or default_namespace
    name: str = meta.get("name") or ""
    now = await source.present(client, namespace, name) if name else None
    try:
        wanted = await source.applied(client, namespace, manifest, now)
    except StatusError as error:
        return ClusterPlan(
            namespace=namespace, name=name, exists=now is not None, problem=str(error)
        )
    kind = RayClusterKind(settings)
    time = wall()
    snapshot = Snapshot(kind, now=time)
    wanted["metadata"]["generation"] = _generation(now, wanted)
    snapshot.add(RAYCLUSTERS, [wanted])
    for resource, objects in (await source.children(client, kind, namespace)).items():
        snapshot.add(resource, objects)
    return _rehearsed(kind, snapshot, now, wanted, time)


def _generation(now: Json | None, wanted: Json) -> int:
    """A dry run does not always count the generation up; what would be written does."""
    if now is None:
        return 1
    old: int = now["metadata"].get("generation", 1)
    return old + (now.get("spec") != wanted.get("spec"))


def _rehearsed(
    kind: RayClusterKind, snapshot: Snapshot, now: Json | None, wanted: Json, time: datetime
) -> ClusterPlan:
    meta = wanted["metadata"]
    key = f"{meta['namespace']}/{meta['name']}"
    seen = kind.observe(key, snapshot)
    problem = str(seen.design) if seen is not None and isinstance(seen.design, Problem) else ""
    before = snapshot.contents()
    rehearsal = rehearse(kind, key, snapshot, time)
    cluster = snapshot.get(RAYCLUSTERS, key)
    conditions = conditions_of(cluster) if cluster is not None else []
    notes = [
        str(condition.get("message"))
        for condition in conditions
        if condition.get("type") in _WORTH_A_NOTE and condition.get("status") == "False"
    ]
    notes += [event.note for event in rehearsal.events if event.type == "Warning" and not problem]
    return ClusterPlan(
        namespace=meta["namespace"],
        name=meta["name"],
        exists=now is not None,
        problem=problem,
        edits=edits_of(now, wanted),
        items=items_of(before, snapshot.contents(), rehearsal),
        notes=tuple(dict.fromkeys(notes)),
    )
