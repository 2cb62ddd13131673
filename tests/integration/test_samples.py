"""Real users' manifests, unchanged, with Manta's CRDs and with KubeRay's, on either API server.

They lie beside the project, in `../shared/samples` or in the folder that `MANTA_SAMPLES` names.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.planning.offline import open_definitions
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.resources import CRDS, POD_GROUPS, WORKLOADS
from controller.ray.api import RAYCLUSTERS, FeatureGates, custom_resource_definitions
from controller.ray.api.feature_gates import GATES, WORKLOAD_SCHEDULING, WORKSPACE
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import CERT_MANAGER
from tests.integration.harness import REAL_KUBECONFIG, World, install_crds
from tests.lab.control_plane import plane_in
from tests.lab.programs import manifests_of, why_missing
from tests.samples import SAMPLES, THEIR_CRDS, documents

NEEDS_MORE_THAN_CORE = {"monitoring.coreos.com", "scheduling.volcano.sh", "scheduling.run.ai"}
"""Groups of documents that no bare API server knows; `kubectl apply` fails on them everywhere."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not SAMPLES.is_dir() or not THEIR_CRDS.is_dir(),
        reason="SKIP: no samples beside the project; users' manifests not tried",
    ),
]

Json = dict[str, Any]


def manifests() -> dict[str, list[Json]]:
    """The documents of every file that has a RayCluster in it, by file name."""
    return {
        path.name: found
        for path, found in documents()
        if any(each.get("kind") == "RayCluster" for each in found)
    }


def batches() -> Iterator[list[Json]]:
    """All documents, in as many rounds as it takes to have no name twice in one of them."""
    waiting = list(manifests().values())
    while waiting:
        names: set[tuple[str, str]] = set()
        batch: list[Json] = []
        later: list[list[Json]] = []
        for found in waiting:
            own = {(each["kind"], each["metadata"]["name"]) for each in found}
            if own & names:
                later.append(found)
            else:
                names |= own
                batch += found
        yield batch
        waiting = later


@pytest.mark.parametrize("crds", ["ours", "theirs"])
async def test_every_sample_becomes_ready_unchanged(world: World, crds: str):
    async with served_by(world, crds, "rayclusters"), issuer_of(world) as issuer:
        settings = await all_features(world, mtls_issuer=issuer)
        world.start_operator(kind=RayClusterKind(settings.ray))
        for batch in batches():
            await live_through(world, batch)


@asynccontextmanager
async def served_by(world: World, crds: str, *plurals: str) -> AsyncGenerator[None]:
    """Have these kinds served by `theirs`, the definitions of KubeRay, until the block ends."""
    if crds != "theirs":
        yield
        return
    await install(world, [load(THEIR_CRDS / f"ray.io_{plural}.yaml")[0] for plural in plurals])
    try:
        yield
    finally:
        await install(world, list(custom_resource_definitions()))


async def all_features(world: World, **more: Any) -> KindSettings:
    """Return settings with all of Ray's gates on, and have the API of gangs served.

    The real API servers that tests share are without that alpha API, so there its gate is off.
    """
    on = dict.fromkeys(GATES, True) | {WORKSPACE: False, WORKLOAD_SCHEDULING: not REAL_KUBECONFIG}
    if not REAL_KUBECONFIG:
        await install_crds(world, *open_definitions(WORKLOADS, POD_GROUPS))
    return KindSettings.from_environment(FeatureGates(on), {}, **more)


@asynccontextmanager
async def issuer_of(world: World) -> AsyncGenerator[str]:
    """Yield who issues certificates: a real cert-manager where it is, beside a real API server."""
    if not REAL_KUBECONFIG or why_missing("cert-manager"):
        yield "manta"
        return
    found = manifests_of("cert-manager", "crds")
    await install_crds(world, *(yaml.safe_load(path.read_text()) for path in found))
    with plane_in(Path(REAL_KUBECONFIG).parent).cert_manager():
        yield CERT_MANAGER


async def live_through(world: World, batch: list[Json]) -> None:
    clusters = [each["metadata"]["name"] for each in batch if each["kind"] == "RayCluster"]
    assert clusters
    for document in batch:
        await create(world, document)
    for name in clusters:
        await world.eventually(lambda name=name: is_ready(world, name), seconds=120)
    for name in clusters:
        await world.user.delete(RAYCLUSTERS, world.namespace, name)
    for name in clusters:
        await world.eventually(lambda name=name: is_gone(world, name), seconds=120)
    for document in batch:
        if document["kind"] != "RayCluster":
            await remove(world, document)


async def is_ready(world: World, name: str) -> bool:
    status = (await world.cluster(name)).status
    conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
    return status.get("state") == "ready" and conditions.get("Ready") == "True"


async def is_gone(world: World, name: str) -> bool:
    try:
        await world.cluster(name)
    except NotFound:
        return True
    return False


async def create(world: World, document: Json) -> None:
    if document["apiVersion"].partition("/")[0] in NEEDS_MORE_THAN_CORE:
        return
    meta = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    body = document | {"metadata": meta}  # as if applied with -n and without a place of its own
    try:
        await world.user.request_json("POST", collection(world, document), body=body)
    except AlreadyExists:  # a claim of the batch before, which its protection keeps
        assert document["kind"] == "PersistentVolumeClaim"


async def remove(world: World, document: Json) -> None:
    if document["apiVersion"].partition("/")[0] in NEEDS_MORE_THAN_CORE:
        return
    path = f"{collection(world, document)}/{document['metadata']['name']}"
    with suppress(NotFound):  # a claim that was already to go when it was created again
        await world.user.request_json("DELETE", path)


def collection(world: World, document: Json) -> str:
    group_version, kind = document["apiVersion"], document["kind"].lower()
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    if kind in {
        "clusterrole",
        "clusterrolebinding",
        "gatewayclass",
        "priorityclass",
        "storageclass",
    }:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{world.namespace}/{plural}"


async def install(world: World, definitions: list[Json]) -> None:
    """Put these definitions in the place of those of the same name."""
    for definition in definitions:
        name = definition["metadata"]["name"]
        try:
            present = await world.user.get_raw(CRDS, "", name)
        except NotFound:
            continue
        present["spec"] = definition["spec"]
        await world.user.replace(CRDS, "", name, present)
    await world.settle(2.0)  # the server takes a definition up when it sees it
