"""What a user of the operator's web page sees: what he may get and list, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.status.page_server import PageServer, Reviewed, Viewer
from controller.command.status.reading import EVENTS, KINDS, read
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from devcluster.apiserver.authentication import TokenIssuer
from devcluster.apiserver.authorization import Rbac
from tests.fakes.monitoring import serving
from tests.integration.harness import World

pytestmark = pytest.mark.real_time

RBAC = "/apis/rbac.authorization.k8s.io/v1"
VIEWER = {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "list"]}


async def token(world: World, name: str, *rules: dict[str, Any]) -> str:
    """A token of a new service account that these rules allow something in the namespace."""
    if world.server is not None and world.server.hooks.tokens is None:
        world.server.audit.authorizer = Rbac(world.server.store)
        world.server.hooks.tokens = TokenIssuer(world.server.store, world.wall)
    ask, place = world.user.request_json, f"/namespaces/{world.namespace}"
    accounts = f"/api/v1{place}/serviceaccounts"
    metadata = {"metadata": {"name": name}}
    await ask("POST", accounts, body={"apiVersion": "v1", "kind": "ServiceAccount", **metadata})
    if rules:
        role = {"apiVersion": RBAC.removeprefix("/apis/"), "kind": "Role", "rules": rules}
        await ask("POST", f"{RBAC}{place}/roles", body=role | metadata)
        binding = {
            "apiVersion": RBAC.removeprefix("/apis/"),
            "kind": "RoleBinding",
            **metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": world.namespace}],
        }
        await ask("POST", f"{RBAC}{place}/rolebindings", body=binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await ask("POST", f"{accounts}/{name}/token", body=asked)
    return made["status"]["token"]


@pytest.mark.vital
async def test_the_api_server_says_who_it_is_and_what_he_may_see(world: World):
    given = await token(world, "viewer", VIEWER)
    access = Reviewed(world.client("page"), world.loop.time)
    for wrong in ("", "no token", given[:-2], "ä"):
        assert await access.viewer(wrong) is None
    viewer = await access.viewer(given)
    assert viewer is not None

    async def may(*asked: Any) -> bool:
        assert viewer is not None
        return await viewer.may(*asked)

    assert await may("get", RAYCLUSTERS, world.namespace, "any")
    assert await may("list", RAYCLUSTERS, world.namespace)
    assert not await may("list", RAYCLUSTERS, "")
    assert not await may("list", RAYCLUSTERS, "kube-system")
    assert not await may("list", RAYJOBS, world.namespace)
    assert not await may("get", PODS, world.namespace, "any", "log")
    assert not await may("list", EVENTS, world.namespace)


async def test_a_right_that_is_taken_away_counts_no_longer_than_ten_seconds(world: World):
    given = await token(world, "viewer", VIEWER)
    time = 100.0
    access = Reviewed(world.client("page"), lambda: time)

    async def asked() -> bool:
        viewer: Viewer | None = await access.viewer(given)
        return viewer is not None and await viewer.may("list", RAYCLUSTERS, world.namespace)

    assert await asked()
    path = f"{RBAC}/namespaces/{world.namespace}/rolebindings/viewer"
    await world.user.request_json("DELETE", path)
    assert await asked()
    time += 11
    if world.server is None:
        await world.eventually(lambda: _later(asked))  # its authorizer has a cache, too
    assert not await asked()
    path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/viewer"
    await world.user.request_json("DELETE", path)
    time += 11
    if world.server is not None:
        assert await access.viewer(given) is None


async def _later(asked: Any) -> bool:
    return not await asked()


async def test_the_page_shows_the_clusters_of_a_namespace_but_neither_jobs_nor_pods_nor_logs(
    world: World,
):
    claims = {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["list"]}
    given = await token(world, "viewer", VIEWER, claims)
    nobody = await token(world, "nobody")
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    client = world.client("page")
    seen = await read(client, [*KINDS, PODS], world.namespace)
    pod = seen.pods[0].metadata.name
    seen.found[NODE_CLAIMS] = []
    server = PageServer(
        0,
        read=lambda _: seen,
        client=client,
        access=Reviewed(client, world.loop.time),
        wall=world.wall,
        option="--page-port",
    )
    async with serving(server) as session:

        async def page(path: str, who: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {who}"}
            async with session.get(path, headers=headers) as answer:
                return answer.status, await answer.text()

        status, text = await page("/", given)
        assert status == 200
        assert "name a namespace whose objects you may list" in text
        assert "example" not in text
        _, text = await page(f"/?namespace={world.namespace}", given)
        assert "raycluster/example" in text
        assert f"rayjobs of namespace {world.namespace}: you lack the right to list them" in text
        assert "pods of namespace" in text
        # A right in one namespace is none to list what has no namespace.
        assert f"nodeclaims of namespace {world.namespace}: you lack the right" in text
        _, text = await page(f"/rayclusters/{world.namespace}/example?log={pod}", given)
        assert "events: you lack the right to list them" in text
        assert "group workers: 2 pods" in text
        assert "of 2 ready" not in text  # how many are is in the pods, which he may not list
        assert "started on" not in text
        status, text = await page(f"/rayjobs/{world.namespace}/gone", given)
        assert (status, "You lack the right to get rayjobs gone" in text) == (403, True)
        status, text = await page(f"/rayclusters/{world.namespace}/example", nobody)
        assert (status, "You lack the right to get rayclusters example" in text) == (403, True)
