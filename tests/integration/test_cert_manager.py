"""Real cert-manager beside the control plane: Certificates of an authority become Secrets."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from tests.integration.harness import REAL_KUBECONFIG, World, install_crds, real_world
from tests.lab.control_plane import plane_in
from tests.lab.programs import manifests_of
from tests.lab.session import needs

pytestmark = [
    pytest.mark.real_only,
    pytest.mark.vital,
    pytest.mark.timeout(180),
    needs("cert-manager"),
]

SECRETS = Resource("", "v1", "secrets", "Secret", KubeObject)
NAMES = ["service.example.svc", "service.example.svc.cluster.local"]


async def test_a_certificate_of_an_authority_becomes_a_secret():
    async with real_world(REAL_KUBECONFIG, components=frozenset()) as world:
        manifests = manifests_of("cert-manager", "crds")
        await install_crds(world, *(yaml.safe_load(path.read_text()) for path in manifests))
        with plane_in(Path(REAL_KUBECONFIG).parent).cert_manager():
            await _create(world, "issuers", "self-signed", {"selfSigned": {}})
            await _create(
                world,
                "certificates",
                "authority",
                {
                    "isCA": True,
                    "commonName": "authority",
                    "secretName": "authority",
                    "issuerRef": {"name": "self-signed"},
                },
            )
            await _create(world, "issuers", "authority", {"ca": {"secretName": "authority"}})
            served = {"secretName": "served", "dnsNames": NAMES, "issuerRef": {"name": "authority"}}
            await _create(world, "certificates", "served", served)
            authority, _ = await world.eventually(lambda: _pair(world, "authority"), seconds=90)
            certificate, issuer = await world.eventually(lambda: _pair(world, "served"), seconds=90)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    assert issuer == authority
    certificate.verify_directly_issued_by(authority)


async def _create(world: World, plural: str, name: str, spec: dict[str, Any]) -> None:
    path = f"/apis/cert-manager.io/v1/namespaces/{world.namespace}/{plural}"
    body = {
        "apiVersion": "cert-manager.io/v1",
        "kind": plural.title().removesuffix("s"),
        "metadata": {"name": name},
        "spec": spec,
    }
    await world.user.request_json("POST", path, body=body)


async def _pair(world: World, name: str) -> tuple[x509.Certificate, x509.Certificate] | None:
    """The certificate in a Secret, and that of its authority; None before it is issued."""
    try:
        secret = await world.user.get_raw(SECRETS, world.namespace, name)
    except NotFound:
        return None
    data = secret["data"]
    if "tls.crt" not in data:
        return None
    first, second = (base64.b64decode(data[key]) for key in ("tls.crt", "ca.crt"))
    return x509.load_pem_x509_certificate(first), x509.load_pem_x509_certificate(second)
