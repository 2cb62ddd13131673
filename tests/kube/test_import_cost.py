"""Types are cheap to import, which keeps start-up fast and memory small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from controller.kube.http import READ_BUFFER

EXPENSIVE = ("aiohttp", "kubernetes_asyncio", "prometheus_client", "yaml")

KUBECONFIG = """
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
users: [{name: one, user: {token: secret}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
current-context: one
"""

STARTED = """
import asyncio, sys
from controller.command.cli import parser
from controller.command.cli.run import settings_of
from controller.command.kinds import KindSettings
from controller.command.operator import operator_for
from controller.command.run import log_as
from controller.kube.kubeconfig import load_credentials

async def start():
    options = parser().parse_args(["run", "--kubeconfig", sys.argv[1], "--log-format", "json"])
    settings = settings_of(options)
    log_as(settings)
    credentials = await load_credentials(kubeconfig=options.kubeconfig)
    async with operator_for(credentials, settings, user_agent="test"):
        print(*sys.modules)

asyncio.run(start())
"""
"""Puts an operator together as `manta run` does."""


def words_of(program: str, *arguments: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
    )
    return set(result.stdout.split())


def loaded_by(*modules: str) -> set[str]:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    return words_of(program) & set(EXPENSIVE)


@pytest.mark.real_time
def test_types_and_the_client_load_no_expensive_library():
    names = ("client", "credentials", "errors", "objects", "resources", "source", "transport")
    assert loaded_by(*(f"controller.kube.{name}" for name in names)) == set()


@pytest.mark.real_time
def test_workspaces_are_loaded_only_where_they_are_served():
    kinds = "kinds_of(KindSettings.from_environment(), None)"
    program = f"import sys; from controller.command.kinds import *; {kinds}; print(*sys.modules)"
    found = words_of(program)
    assert not [name for name in found if name.startswith("controller.kaito")]


NOT_OF_A_START = (
    "aiohttp.web_app",
    "controller.command.development",
    "controller.command.planning",
    "devcluster",
    "controller.kaito",
    "cryptography",
    "frozenlist._frozenlist",
    "kubernetes_asyncio",
    "logging.handlers",
)
"""Packages that `manta run` does without until it needs them."""


@pytest.mark.real_time
def test_a_start_with_a_token_of_a_kubeconfig_loads_only_what_it_needs(tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    found = words_of(STARTED, str(kubeconfig))
    assert [name for name in found if name.startswith(NOT_OF_A_START)] == []
    assert "controller.ray.cluster.plan" in found


CERTIFICATES = """
import gc, os, ssl
import controller.kube.http
contexts = [each for each in gc.get_objects() if isinstance(each, ssl.SSLContext)]
print(len(contexts) > 0, sum(len(each.get_ca_certs()) for each in contexts))
print(os.environ["SSL_CERT_FILE"] == ssl.get_default_verify_paths().cafile)
print(os.environ.get("FROZENLIST_NO_EXTENSIONS"))
"""


@pytest.mark.real_time
def test_no_certificates_are_read_and_the_environment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trusted = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(trusted))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.delenv("FROZENLIST_NO_EXTENSIONS", raising=False)
    assert words_of(CERTIFICATES) == {"True", "0", "None"}


RUN = """
from asyncio import sslproto
from controller.__main__ import main
assert main(["run", "--kubeconfig", "/nonexistent"]) == 2
print(sslproto.SSLProtocol.max_size)
"""


@pytest.mark.real_time
def test_the_operator_limits_the_read_buffers_of_its_connections():
    assert words_of(RUN) == {str(READ_BUFFER)}
