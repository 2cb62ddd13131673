"""The credentials of a pod follow the files that the kubelet mounts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from controller.kube.credentials import InClusterCredentials
from controller.kube.errors import ConfigurationError
from controller.kube.kubeconfig import load_credentials

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture(scope="module")
def authority() -> bytes:
    return trustme.CA().cert_pem.bytes()


@pytest.fixture
def mounted(tmp_path: Path, authority: bytes) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(authority)
    return tmp_path


def replace(path: Path, content: bytes) -> None:
    """Replace a file as the kubelet does: another file under the same name."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


async def test_the_next_request_carries_a_rotated_token(mounted: Path):
    credentials = InClusterCredentials(POD, mounted)
    assert await credentials.authorization() == "Bearer first"
    replace(mounted / "token", b"second\n")
    assert await credentials.authorization() == "Bearer second"


async def test_a_token_that_is_missing_or_empty_for_a_moment_is_survived(mounted: Path):
    credentials = InClusterCredentials(POD, mounted)
    (mounted / "token").unlink()
    assert await credentials.authorization() == "Bearer first"
    (mounted / "token").write_bytes(b"")
    assert await credentials.authorization() == "Bearer first"
    replace(mounted / "token", b"second")
    assert await credentials.authorization() == "Bearer second"


def test_a_changed_authority_gives_another_tls_context(mounted: Path):
    credentials = InClusterCredentials(POD, mounted)
    first = credentials.ssl_context()
    assert credentials.ssl_context() is first
    replace(mounted / "ca.crt", b"not a certificate")
    assert credentials.ssl_context() is first
    replace(mounted / "ca.crt", trustme.CA().cert_pem.bytes())
    assert credentials.ssl_context() is not first


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_the_address_is_that_of_the_environment(mounted: Path, host: str, url: str):
    credentials = InClusterCredentials(POD | {"KUBERNETES_SERVICE_HOST": host}, mounted)
    assert credentials.endpoint.url == url
    assert f"https://{credentials.endpoint.host}" == url


def test_outside_a_pod_the_message_says_what_to_do(mounted: Path):
    with pytest.raises(ConfigurationError, match=r"does not run in a pod.*--kubeconfig"):
        InClusterCredentials({}, mounted)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("token", None, "Cannot read the service account token .*No such file"),
        ("token", b" \n", "service account token .* is empty"),
        ("ca.crt", None, "Cannot read the certificate authority"),
        ("ca.crt", b"rubbish", "is not a PEM certificate"),
    ],
)
def test_an_unusable_mount_is_named(mounted: Path, file: str, content: bytes | None, message: str):
    (mounted / file).unlink()
    if content is not None:
        (mounted / file).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        InClusterCredentials(POD, mounted)


async def test_a_pod_is_recognised_and_says_so_when_nothing_is_mounted(monkeypatch, tmp_path):
    monkeypatch.setattr("controller.kube.credentials.SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(ConfigurationError, match="service account token"):
        await load_credentials(environment=POD)


def test_a_pod_never_imports_the_kubeconfig_library(mounted: Path):
    program = f"""
import sys
from pathlib import Path
import controller.kube.client, controller.kube.http, controller.kube.source
import controller.kube.kubeconfig, controller.kube.credentials
from controller.kube.credentials import InClusterCredentials
InClusterCredentials({POD!r}, Path({str(mounted)!r})).ssl_context()
found = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
sys.exit(f"imported: {{found}}" if found else 0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ, timeout=50)
