"""What the HTTP endpoints answer, word for word, and how they are served."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge
from structlog.testing import capture_logs

from controller.runtime.health import Health, MonitoringServer
from controller.runtime.kind import ManagerMisuse
from tests.fakes.monitoring import serving

pytestmark = pytest.mark.real_time  # sockets


def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("answer", "The answer", registry=registry).set(42)
    return registry


def health() -> Health:
    def broken() -> str | None:
        raise RuntimeError("a password may be in here")

    health = Health()
    health.add_readiness("caches", lambda: "cannot list pods")
    health.add_readiness("broken", broken)
    health.add_readiness("fine", lambda: None)
    return health


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/livez/", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/healthz/ping", 200, "ok"),
        ("/healthz/caches", 404, "there is no check caches\n"),
        ("/readyz/caches/", 500, "cannot list pods\n"),
        ("/readyz/broken", 500, "reason withheld\n"),
        ("/readyz/fine/", 200, "ok"),
        (
            "/readyz?exclude=broken",
            500,
            """\
[+]ping ok
[-]caches failed: cannot list pods
[+]broken excluded: ok
[+]fine ok
readyz check failed
""",
        ),
        ("/readyz?exclude=broken&exclude=caches", 200, "ok"),
        (
            "/readyz?exclude=broken&exclude=caches&verbose",
            200,
            """\
[+]ping ok
[+]caches excluded: ok
[+]broken excluded: ok
[+]fine ok
readyz check passed
""",
        ),
        ("/metrics", 404, "404: Not Found"),
        ("/", 404, "404: Not Found"),
        ("/readyz//", 404, "404: Not Found"),
        ("/readyz/fine/more", 404, "404: Not Found"),
    ],
)
async def test_each_path_answers_with_these_words(path: str, status: int, text: str):
    server = MonitoringServer(("127.0.0.1", 0), health=health())
    async with serving(server) as session, session.get(path) as answer:
        assert (answer.status, await answer.text()) == (status, text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/readyz/fine", 200),
        ("HEAD", "/metrics", 200),
        ("POST", "/readyz", 405),
        ("POST", "/metrics", 405),
        ("POST", "/metrics/", 404),
    ],
)
async def test_it_only_answers_to_who_reads(method: str, path: str, status: int):
    server = MonitoringServer(("127.0.0.1", 0), health=health(), registry=registry())
    async with serving(server) as session, session.request(method, path) as answer:
        assert answer.status == status
        assert method != "HEAD" or await answer.read() == b""


async def test_the_exception_of_a_check_is_in_the_log_alone():
    server = MonitoringServer(("127.0.0.1", 0), health=health())
    async with serving(server) as session:
        with capture_logs() as logs:
            async with session.get("/readyz/broken"):
                pass
    assert logs == [
        {"event": "check.failed", "check": "broken", "log_level": "error", "exc_info": True}
    ]


async def test_metrics_come_in_the_format_that_is_asked_for():
    async with serving(MonitoringServer(("127.0.0.1", 0), registry=registry())) as session:
        async with session.get("/metrics", headers={"Accept": "text/plain"}) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            assert "answer 42.0" in await answer.text()
        openmetrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with session.get("/metrics", headers=openmetrics) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert (await answer.text()).endswith("# EOF\n")
        async with session.get("/metrics", skip_auto_headers=["Accept"]) as answer:
            assert answer.status == 200
        async with session.get("/healthz") as answer:
            assert answer.status == 404


async def test_a_check_that_comes_late_is_named():
    late = Health()
    late.seal()
    with pytest.raises(ManagerMisuse) as caught:
        late.add_readiness("late", lambda: None)
    assert str(caught.value) == "check late comes too late: health is served already"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(1, "text"), "Operation not permitted"),
        (OSError(13, "text"), "Permission denied"),
        (socket.gaierror(-2, "Name or service not known"), "[Errno -2] Name or service not known"),
        (OSError("no such address"), "no such address"),
    ],
)
async def test_what_the_system_says_about_an_address_is_said(
    monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str
):
    async def create_server(*_address: Any, **_tls: Any) -> asyncio.Server:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", create_server)
    with pytest.raises(OSError) as caught:
        await MonitoringServer(("", 8080), health=Health()).run(lambda: None)
    option = "--health-address (of /manager: -health-probe-bind-address)"
    assert str(caught.value) == (
        f"cannot listen on *:8080: {reason}; choose another address with {option}"
    )
    assert caught.value.__cause__ is error
