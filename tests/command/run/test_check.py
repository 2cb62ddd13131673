"""The version of the API server: read at the start if a feature gate depends on it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from controller.command.run import check, require_version
from controller.kube.errors import ConfigurationError
from controller.ray.api import FeatureGates
from tests.command.test_wrong_invocations import kubeconfig
from tests.kube.servers import RawServer

pytestmark = pytest.mark.real_time

RESTARTS = FeatureGates.parse("SidecarSubmitterRestart=true")


def server_of(version: str) -> RawServer:
    """An API server that knows its version, and nothing else."""

    async def respond(
        method: str, target: str, fields: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        body = json.dumps({"gitVersion": version} if version else {}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        writer.write(f"{head}\r\n\r\n".encode() + body)

    return RawServer(respond)


@pytest.mark.parametrize(
    ("version", "recent"),
    [
        ("v1.35.0", True),
        ("v1.35.2-gke.100", True),
        ("v1.100.0", True),
        ("v2.0.0", True),
        ("v1.34.7+k3s1", False),
        ("v1.9.0", False),
        ("", False),
        ("unknown", False),
    ],
)
async def test_restarts_of_a_sidecar_need_kubernetes_1_35(
    version: str, recent: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    async with server_of(version) as server:
        path = tmp_path / "config"
        path.write_text(kubeconfig(server.url))
        place = {"kubeconfig": str(path), "context": None}
        assert await check(FeatureGates(), **place) == 0
        assert await check(RESTARTS, **place) == (0 if recent else 1)
        await require_version(FeatureGates(), **place)
        if recent:
            await require_version(RESTARTS, **place)
            return
        words = "SidecarSubmitterRestart needs Kubernetes 1.35, and this server is "
        with pytest.raises(ConfigurationError, match=words):
            await require_version(RESTARTS, **place)
        assert words in capsys.readouterr().err
