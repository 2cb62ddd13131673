"""Kubeconfig files: the settings in use, and the messages for unusable files."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from controller.kube.errors import ConfigurationError
from controller.kube.kubeconfig import KubeconfigCredentials, load_credentials

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CA = trustme.CA()
ME = CA.issue_cert("me@example")
CHAIN = b"".join(part.bytes() for part in ME.cert_chain_pems)
KEY = ME.private_key_pem.bytes()


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def config(
    name: str = "one", *, user: dict[str, Any] | None = None, **cluster: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443/"} | cluster}
        ],
        "users": [{"name": name, "user": {"token": f"{name}-token"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def write(path: Path, content: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


async def load(paths: str | None, context: str | None = None, **environment: str):
    return await load_credentials(
        kubeconfig=paths, context=context, environment=environment, wall=lambda: EPOCH
    )


async def test_server_and_token_are_those_of_the_current_context(tmp_path: Path):
    credentials = await load(write(tmp_path / "c", config()))
    assert credentials.endpoint.url == "https://one.example:6443"
    assert credentials.endpoint.context == "one"
    assert await credentials.authorization() == "Bearer one-token"


async def test_two_paths_merge_and_the_first_current_context_wins(tmp_path: Path):
    first = write(tmp_path / "a" / "c", config("one"))
    second = write(tmp_path / "b" / "c", config("two"))
    missing = str(tmp_path / "missing")
    paths = f"{missing}:{first}:{second}"
    assert (await load(None, KUBECONFIG=paths)).endpoint.url == "https://one.example:6443"
    other = await load(paths, "two")
    assert other.endpoint.url == "https://two.example:6443"
    assert await other.authorization() == "Bearer two-token"


async def test_relative_paths_start_at_the_file_that_names_them(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "token").write_text("from b\n")
    (tmp_path / "b" / "ca.crt").write_bytes(CA.cert_pem.bytes())
    user = {"tokenFile": "token"}
    first = write(tmp_path / "a" / "c", config("one"))
    second = write(
        tmp_path / "b" / "c", config("two", user=user, **{"certificate-authority": "ca.crt"})
    )
    credentials = await load(f"{first}:{second}", "two")
    assert await credentials.authorization() == "Bearer from b"


async def test_kubeconfig_is_looked_up_when_called_and_goes_before_the_pod(tmp_path, monkeypatch):
    import controller.kube.kubeconfig  # noqa: PLC0415  the library reads KUBECONFIG when imported

    assert controller.kube.kubeconfig
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "c", config("late")))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert (await load_credentials()).endpoint.url == "https://late.example:6443"


async def test_a_token_file_is_read_again_when_it_is_replaced(tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("first\n")
    path = write(tmp_path / "c", config(user={"tokenFile": str(token), "token": "static"}))
    credentials = await load(path)
    assert await credentials.authorization() == "Bearer first"
    token.with_suffix(".new").write_text("second\n")
    token.with_suffix(".new").replace(token)
    assert await credentials.authorization() == "Bearer second"


async def test_tls_material_in_the_file_leaves_no_files_behind(tmp_path: Path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    user = {"client-certificate-data": b64(CHAIN), "client-key-data": b64(KEY)}
    authority = {"certificate-authority-data": b64(CA.cert_pem.bytes())}
    path = write(tmp_path / "c", config(user=user, **authority))
    before = (tmp_path / "c").stat()
    credentials = await load(path)
    context = credentials.ssl_context()
    assert context is not None
    assert context is credentials.ssl_context()
    assert len(context.get_ca_certs()) == 1
    assert list(temporary.iterdir()) == []
    assert (tmp_path / "c").stat() == before


async def test_certificates_may_be_files(tmp_path: Path):
    (tmp_path / "chain").write_bytes(CHAIN)
    (tmp_path / "key").write_bytes(KEY)
    user = {"client-certificate": "chain", "client-key": "key"}
    assert (await load(write(tmp_path / "c", config(user=user)))).ssl_context() is not None


async def test_proxy_server_name_and_insecure_are_taken(tmp_path: Path):
    cluster = {
        "proxy-url": "http://proxy:3128",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
    }
    credentials = await load(write(tmp_path / "c", config(**cluster)))
    assert credentials.endpoint.proxy == "http://proxy:3128"
    assert credentials.endpoint.server_name == "kubernetes"
    context = credentials.ssl_context()
    assert context is not None
    assert not context.check_hostname


async def test_name_and_password_are_basic_authentication(tmp_path: Path):
    path = write(tmp_path / "c", config(user={"username": "me", "password": "secret"}))
    assert await (await load(path)).authorization() == f"Basic {b64(b'me:secret')}"


BAD: dict[str, tuple[Any, str]] = {
    "malformed": ("a: [", r"is not valid YAML: .* line \d"),
    "deep": ("a: " + "[" * 2000, "is not valid YAML: maximum recursion depth exceeded"),
    "no day": ("a: 2026-99-99", "is not valid YAML: month must be"),
    "no time": ("a: !!timestamp b", "is not valid YAML"),
    "no boolean": ("a: !!bool b", "is not valid YAML"),
    "no mapping": ("- a", "is not a mapping"),
    "empty": ("", "kubeconfig is empty"),
    "no current context": (
        config() | {"current-context": ""},
        "No current context is set .* available: one",
    ),
    "no such context": (
        config() | {"current-context": "other"},
        "There is no context 'other' .* There are: one",
    ),
    "no such cluster": (config() | {"clusters": []}, "There is no cluster 'one' for context 'one'"),
    "no such user": (config() | {"users": None}, "There is no user 'one'"),
    "nameless entry": (
        config() | {"users": [{"user": {}}]},
        "users must be a list of mappings, each with a name",
    ),
    "no server": (config(server=None), "no usable server"),
    "socks": (config(**{"proxy-url": "socks5://p:1"}), "proxy-url .* is not supported"),
    "ca missing": (
        config(**{"certificate-authority": "/nowhere/ca.crt"}),
        "Cannot read the certificate-authority /nowhere/ca.crt: No such file",
    ),
    "ca rubbish": (config(**{"certificate-authority-data": b64(b"x")}), "is not a PEM certificate"),
    "not base64": (
        config(**{"certificate-authority-data": "!"}),
        "data in the kubeconfig is not base64",
    ),
    "half a pair": (config(user={"client-certificate-data": b64(CHAIN)}), "Both are needed"),
    "wrong key": (
        config(user={"client-certificate-data": b64(CHAIN), "client-key-data": b64(b"x")}),
        "do not match or are not PEM",
    ),
    "token file missing": (config(user={"tokenFile": "nowhere"}), "Cannot read the token file"),
    "impersonation": (config(user={"as": "root"}), "impersonates another"),
    "auth-provider": (config(user={"auth-provider": {"name": "oidc"}}), "Use an exec plugin"),
}


@pytest.mark.parametrize("case", BAD)
async def test_an_unusable_file_is_explained_in_one_paragraph(case: str, tmp_path: Path):
    content, message = BAD[case]
    with pytest.raises(ConfigurationError, match=message) as caught:
        await load(write(tmp_path / "c", content))
    assert "\n" not in str(caught.value)


async def test_a_missing_file_is_explained(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"No kubeconfig found: .*nowhere does not exist"):
        await load(str(tmp_path / "nowhere"))


async def test_an_unreadable_file_is_explained(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match=r"Cannot read the kubeconfig .*folder"):
        await load(str(tmp_path / "folder"))


# --- exec plugins, as real processes

PLUGIN = """
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "runs", "a") as runs:
    runs.write(os.environ["EXTRA"] + "\\n")
answer = (here / "answer").read_text()
if answer == "fail":
    sys.exit("login expired")
print(answer)
"""


class ExecSetup:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "plugin.py").write_text(PLUGIN)
        self.now = EPOCH
        section = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(folder / "plugin.py")],
            "env": [{"name": "EXTRA", "value": "given"}],
        }
        self.path = write(folder / "c", config(user={"exec": section}))

    def answers(self, **status: str) -> None:
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        (self.folder / "answer").write_text(json.dumps(credential))

    def fails(self) -> None:
        (self.folder / "answer").write_text("fail")

    @property
    def runs(self) -> list[str]:
        return (self.folder / "runs").read_text().split()

    async def load(self) -> KubeconfigCredentials:
        return await load_credentials(kubeconfig=self.path, environment={}, wall=lambda: self.now)  # type: ignore[return-value]


@pytest.fixture
def setup(tmp_path: Path) -> ExecSetup:
    return ExecSetup(tmp_path)


@pytest.mark.real_time
async def test_an_exec_plugin_fails_once_recovers_and_the_token_follows(setup: ExecSetup):
    setup.answers(token="one", expirationTimestamp="2026-01-01T01:00:00Z")
    credentials = await setup.load()
    assert await credentials.authorization() == "Bearer one"
    assert setup.runs == ["given"]

    setup.now += timedelta(minutes=58)
    setup.fails()
    assert await credentials.authorization() == "Bearer one"
    await settled(credentials)
    setup.answers(token="two", expirationTimestamp="2026-01-01T02:00:00.123456789Z")
    assert await credentials.authorization() == "Bearer one"
    async with asyncio.timeout(60):
        while await credentials.authorization() != "Bearer two":
            await settled(credentials)
            await asyncio.sleep(0.1)
    assert len(setup.runs) == 3
    await credentials.aclose()


async def settled(credentials: KubeconfigCredentials) -> None:
    plugin = credentials._plugin
    assert plugin is not None
    if plugin._running is not None:
        await asyncio.wait([plugin._running])


@pytest.mark.real_time
async def test_a_certificate_of_an_exec_plugin_is_replaced_too(setup: ExecSetup):
    setup.answers(clientCertificateData=CHAIN.decode(), clientKeyData=KEY.decode())
    credentials = await setup.load()
    assert await credentials.authorization() == ""
    first = credentials.ssl_context()
    assert credentials.ssl_context() is first
    other = CA.issue_cert("other@example")
    setup.answers(
        clientCertificateData=b"".join(part.bytes() for part in other.cert_chain_pems).decode(),
        clientKeyData=other.private_key_pem.bytes().decode(),
    )
    await credentials.refresh()
    assert credentials.ssl_context() is not first


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (None, "'.*python.*' of the kubeconfig failed: .*login expired.* Run it by hand"),
        ({}, "neither a token nor a certificate"),
        ({"token": "t", "expirationTimestamp": "soon"}, "unusable result"),
    ],
)
async def test_a_plugin_of_no_use_is_explained(setup: ExecSetup, status, message: str):
    if status is None:
        setup.fails()
    else:
        setup.answers(**status)
    with pytest.raises(ConfigurationError, match=message):
        await setup.load()


@pytest.mark.real_time
async def test_a_plugin_that_is_not_installed_is_explained_with_its_hint(tmp_path: Path):
    section = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./no-such-plugin",
        "installHint": "Get it from the shelf.",
    }
    with pytest.raises(ConfigurationError, match=r"is not installed\. Get it from the shelf"):
        await load(write(tmp_path / "c", config(user={"exec": section})))


@pytest.mark.real_time
async def test_a_relative_plugin_is_looked_for_beside_the_file(setup: ExecSetup):
    setup.answers(token="one")
    program = setup.folder / "bin" / "plugin"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {setup.folder}/plugin.py\n")
    program.chmod(0o755)
    section = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/plugin",
        "env": [{"name": "EXTRA", "value": "given"}],
    }
    path = write(setup.folder / "c", config(user={"exec": section}))
    assert await (await load(path)).authorization() == "Bearer one"
