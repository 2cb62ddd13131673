"""mTLS without cert-manager, from creation to end: the operator issues the certificates itself."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from controller.kube.errors import Invalid
from controller.kube.resources import PODS, SECRETS
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from tests.integration.harness import World, example_cluster

Json = dict[str, Any]

GATES = FeatureGates.parse("RayClusterMTLS=true")
KIND = RayClusterKind(RaySettings(feature_gates=GATES, mtls_issuer="manta"))
HEAD, WORKER = "ray-head-secret-example", "ray-worker-secret-example"


async def running(world: World, *, replicas: int = 1) -> str:
    """A cluster with mTLS that is ready; the name of the Secret of its authority."""
    world.start_operator(kind=KIND)
    body = example_cluster(replicas=replicas)
    body["spec"]["tlsOptions"] = {"enabled": True}
    created = await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.eventually(world.is_ready, seconds=90)
    return f"example-ca-secret-{created.metadata.uid[:8]}"


async def secret(world: World, name: str) -> Json:
    return await world.user.get_raw(SECRETS, world.namespace, name)


async def content(world: World, name: str) -> dict[str, bytes]:
    data = (await secret(world, name))["data"]
    return {key: base64.b64decode(text) for key, text in data.items()}


async def issued_to(world: World, name: str) -> set[str]:
    """The names in a certificate, which the authority beside it has signed, and which has a key."""
    files = await content(world, name)
    leaf, authority = (
        x509.load_pem_x509_certificate(files[each]) for each in ("tls.crt", "ca.crt")
    )
    leaf.verify_directly_issued_by(authority)
    key = load_pem_private_key(files["tls.key"], password=None)
    assert key.public_key() == leaf.public_key()
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return {*found.get_values_for_type(x509.DNSName), *addresses}


async def names(world: World) -> set[str]:
    return {each.metadata.name for each in (await world.user.list(SECRETS, world.namespace)).items}


def workers(world: World) -> set[str]:
    there = {pod.status.pod_ip for pod in world.journal.ready_workers()}
    return {"localhost", "127.0.0.1", *there}


async def follows(world: World, replicas: int) -> None:
    async def are_listed() -> bool:
        there = len(world.journal.ready_workers())  # before a change is seen, the old ones are
        return there == replicas and await issued_to(world, WORKER) == workers(world)

    await world.eventually(are_listed, seconds=60)


@pytest.mark.vital
@pytest.mark.timeout(300)
async def test_addresses_follow_the_pods_and_nothing_is_left_when_mtls_is_turned_off(world: World):
    authority = await running(world)
    assert await names(world) == {HEAD, WORKER, authority}
    for name in (HEAD, WORKER, authority):
        made = await secret(world, name)
        assert made["type"] == "kubernetes.io/tls"
        assert made["data"].keys() == {"ca.crt", "tls.crt", "tls.key"}
        assert made["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    trusted = (await content(world, authority))["tls.crt"]
    assert {(await content(world, each))["ca.crt"] for each in (HEAD, WORKER)} == {trusted}
    for replicas in (3, 1):
        await world.scale(replicas)
        await world.eventually(world.is_ready, seconds=90)
        await follows(world, replicas)
    service = f"example-head-svc.{world.namespace}.svc.cluster.local"
    assert {"localhost", "127.0.0.1", service} < await issued_to(world, HEAD)
    before = [await secret(world, each) for each in (HEAD, WORKER)]
    await world.settle(5)
    assert [await secret(world, each) for each in (HEAD, WORKER)] == before, "at rest"

    body = {"spec": {"tlsOptions": None}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", body)
    await world.settle(5)
    assert await names(world) == {HEAD, WORKER, authority}, "the pods use them"
    for pod in list(world.journal.present.values()):
        await world.user.delete(PODS, world.namespace, pod.metadata.name)
    await world.becomes(lambda: names(world), lambda found: not found, seconds=180)
    await world.eventually(world.is_ready, seconds=180)


@pytest.mark.embedded_only
async def test_keys_are_in_their_secrets_and_nowhere_else(
    world: World, capsys: pytest.CaptureFixture[str]
):
    authority = await running(world)
    assert world.server is not None
    secrets = [await content(world, name) for name in (HEAD, WORKER, authority)]
    keys = [each["tls.key"].splitlines()[1].decode() for each in secrets]
    objects = [
        str(item.object)
        for table, rows in world.server.store.tables.items()
        for item in rows.items.values()
        if table != "secrets"
    ]
    output = capsys.readouterr()
    texts = [*objects, output.out, output.err]
    assert len(objects) > 5
    assert "reconcile" in output.out
    assert not [key for key in keys for text in texts if key in text]
    encoded = [(await secret(world, name))["data"]["tls.key"] for name in (HEAD, WORKER, authority)]
    assert not [key for key in encoded for text in texts if key in text]


@pytest.mark.embedded_only
async def test_another_authority_follows_a_deleted_one_and_the_pods_to_delete_are_named(
    world: World,
):
    authority = await running(world)
    trusted = (await content(world, authority))["tls.crt"]
    body = {"data": {"tls.key": base64.b64encode(b"damaged").decode()}}
    with pytest.raises(Invalid):
        await world.user.merge_patch(SECRETS, world.namespace, authority, body)
    await world.settle(2)
    await world.user.delete(SECRETS, world.namespace, authority)

    async def is_another() -> bool:
        return authority in await names(world) and all(
            [(await content(world, each))["ca.crt"] != trusted for each in (HEAD, WORKER)]
        )

    await world.eventually(is_another)
    await follows(world, 1)
    await world.events_about("RayCluster", "example", "MTLSAuthorityReplaced")
    conditions = (await world.cluster()).status["conditions"]
    found = next(each for each in conditions if each["type"] == "ChildrenAsSpecified")
    assert "delete these pods, the head last" in found["message"]
    for pod in list(world.journal.present.values()):
        await world.user.delete(PODS, world.namespace, pod.metadata.name)

    async def is_mended() -> bool:
        is_left = (await world.condition("ChildrenAsSpecified"))["status"]
        return not is_left and await world.is_ready()

    await world.eventually(is_mended, seconds=180)
