"""mTLS from creation to end: with a stand-in for cert-manager, and with the real one."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from controller.kube.resources import CERTIFICATES, ISSUERS, PODS, SECRETS
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from tests.integration.cert_manager import install_cert_manager
from tests.integration.harness import (
    REAL_KUBECONFIG,
    World,
    example_cluster,
    install_crds,
    is_ready,
    real_world,
)
from tests.lab.control_plane import plane_in
from tests.lab.programs import manifests_of
from tests.lab.session import needs

pytestmark = pytest.mark.slow

Json = dict[str, Any]

KIND = RayClusterKind(RaySettings(feature_gates=FeatureGates.parse("RayClusterMTLS=true")))
LEAVES = {"ray-head-cert-example", "ray-worker-cert-example"}


def manifest(*, replicas: int = 1, enabled: bool = True) -> Json:
    body = example_cluster(replicas=replicas)
    body["spec"]["tlsOptions"] = {"enabled": enabled}
    return body


async def names(world: World, resource: Any) -> set[str]:
    return {each.metadata.name for each in (await world.user.list(resource, world.namespace)).items}


async def listed_addresses(world: World, certificate: str) -> set[str]:
    raw = await world.user.get_raw(CERTIFICATES, world.namespace, certificate)
    return set(raw["spec"]["ipAddresses"])


def addresses(world: World) -> set[str]:
    """Those of the workers there are."""
    return {pod.status.pod_ip for pod in world.journal.ready_workers()} | {"127.0.0.1"}


async def set_tls(world: World, options: Json | None) -> None:
    body = {"spec": {"tlsOptions": options}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", body)


async def follows(world: World, replicas: int) -> None:
    """The workers' certificate has the addresses of so many workers."""
    await world.scale(replicas)

    async def are_listed() -> bool:
        there = addresses(world)
        return len(there) == replicas + 1 and (
            await listed_addresses(world, "ray-worker-cert-example") == there
        )

    await world.eventually(are_listed, seconds=180)


@pytest.mark.embedded_only
async def test_addresses_follow_the_pods_and_nothing_is_left_when_mtls_is_turned_off(world: World):
    await install_cert_manager(world)
    world.start_operator(kind=KIND)
    await world.user.create(RAYCLUSTERS, world.namespace, manifest())
    await world.eventually(world.is_ready)
    await follows(world, 4)
    await follows(world, 2)
    await world.settle(5)
    written = await world.user.list(CERTIFICATES, world.namespace)
    await world.settle(120)
    again = await world.user.list(CERTIFICATES, world.namespace)
    assert again.items == written.items, "at rest nothing is written"
    secrets = await world.user.list(SECRETS, world.namespace)
    owners = {o.name for each in secrets.items for o in each.metadata.owner_references}
    assert owners == LEAVES | {"ray-ca-certificate-example"}

    pods = set(world.journal.present)
    await set_tls(world, None)
    await world.settle(60)
    assert set(world.journal.present) == pods, "as in KubeRay, an edit restarts nothing"
    assert await names(world, CERTIFICATES) >= LEAVES, "the pods use them"
    for pod in list(world.journal.present.values()):
        await world.user.delete(PODS, world.namespace, pod.metadata.name)

    async def are_gone() -> bool:
        left = [await names(world, each) for each in (CERTIFICATES, ISSUERS, SECRETS)]
        return not any(left)

    await world.eventually(are_gone, seconds=180)
    await world.eventually(world.is_ready, seconds=180)
    await world.events_about("RayCluster", "example", "MTLSCertificatesUpdated")


@pytest.mark.embedded_only
async def test_an_edit_under_recreate_restarts_all_pods_with_certificates(world: World):
    await install_cert_manager(world)
    world.start_operator(kind=KIND)
    body = manifest(enabled=False)
    body["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    await world.eventually(world.is_ready)
    assert await names(world, CERTIFICATES) == set()
    old = set(world.journal.present)
    await set_tls(world, {"enabled": True})

    async def are_new() -> bool:
        pods = world.journal.present
        return len(pods) == 2 and not pods.keys() & old and all(map(is_ready, pods.values()))

    await world.eventually(are_new, seconds=180)
    for pod in world.journal.present.values():
        assert pod.spec.init_containers[0].name == "wait-for-tls-ip-san"


@asynccontextmanager
async def with_cert_manager() -> AsyncGenerator[World]:
    async with real_world(REAL_KUBECONFIG) as world:
        found = manifests_of("cert-manager", "crds")
        await install_crds(world, *(yaml.safe_load(path.read_text()) for path in found))
        with plane_in(Path(REAL_KUBECONFIG).parent).cert_manager():
            yield world


@pytest.mark.real_only
@pytest.mark.vital
@pytest.mark.timeout(300)
@needs("cert-manager")
async def test_a_real_cert_manager_issues_what_the_pods_need():
    async with with_cert_manager() as world:
        world.start_operator(kind=KIND)
        await world.user.create(RAYCLUSTERS, world.namespace, manifest())
        await world.eventually(world.is_ready, seconds=120)
        await follows(world, 3)

        async def has_addresses() -> bool:
            found = await issued_to(world, "ray-worker-secret-example")
            return set(map(str, found.get_values_for_type(x509.IPAddress))) == addresses(world)

        await world.eventually(has_addresses, seconds=90)
        names_of_head = await issued_to(world, "ray-head-secret-example")
        assert names_of_head.get_values_for_type(x509.DNSName) == [
            f"example-head-svc.{world.namespace}.svc.cluster.local",
            "localhost",
        ]
        await world.user.delete(RAYCLUSTERS, world.namespace, "example")

        async def are_gone() -> bool:
            left = [await names(world, each) for each in (CERTIFICATES, ISSUERS, SECRETS)]
            return not any(left)

        await world.eventually(are_gone, seconds=90)


async def issued_to(world: World, secret: str) -> x509.SubjectAlternativeName:
    """For whom the certificate in a Secret is, which its authority has signed."""
    data = (await world.user.get_raw(SECRETS, world.namespace, secret))["data"]
    leaf, authority = (
        x509.load_pem_x509_certificate(base64.b64decode(data[key])) for key in ("tls.crt", "ca.crt")
    )
    leaf.verify_directly_issued_by(authority)
    return leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
