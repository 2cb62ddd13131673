"""What the demo of RayServices counts, what it calls wrong, and how it says why."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.command.cli.printed import example_files
from controller.kube.errors import ConfigurationError
from demos import serve_client
from demos.serve_client import ServeClient, ask
from demos.service import ServiceDemo, wrong_answers
from demos.stage import StepFailed, failure_text
from demos.traffic import (
    Put,
    PutRecorder,
    Traffic,
    client_pod,
    versions_of,
)
from devcluster.apiserver.messages import ApiRequest, json_response, parse_resource_path


def line(*answers: list[Any], failures: tuple[str, ...] = (), slowest: float = 0.1) -> str:
    return json.dumps(
        {"at": 1.0, "answers": answers, "failures": list(failures), "slowest": slowest}
    )


def test_answers_are_counted_by_version_and_cluster():
    traffic = Traffic()
    traffic.saw_line(line(["/a", "v1", "old", "7", 12], ["/b", "v1", "old", "8", 8]))
    traffic.saw_line(line(["/a", "v1", "old", "7", 3], ["/a", "v2", "new", "9", 17], slowest=0.4))
    assert dict(traffic.by_version()) == {("v1", "old"): 23, ("v2", "new"): 17}
    assert traffic.latest(1) == {("/a", "v1", "old"), ("/a", "v2", "new")}
    assert traffic.latest(3) == set()
    assert traffic.processes("/a", "old") == {"7"}
    assert traffic.slowest == 0.4


def test_whatever_else_the_client_prints_is_a_failure():
    traffic = Traffic()
    traffic.saw_line("Traceback (most recent call last):")
    traffic.saw_line(line(failures=("/a: refused",)))
    assert traffic.failures == ["Traceback (most recent call last):", "/a: refused"]
    assert wrong_answers([], traffic, {}) == ["2 requests failed"]
    assert wrong_answers([], Traffic(), {}) == []


def test_a_cluster_that_got_or_answered_another_version_is_wrong():
    versions = {"old": {"v1"}, "new": {"v2"}}
    traffic = Traffic()
    traffic.saw_line(line(["/a", "v1", "old", "7", 1], ["/a", "v2", "new", "8", 1]))
    puts = [Put("old", {"a": "v1"}, None, 200), Put("new", {"a": "v2"}, None, 200)]
    assert wrong_answers(puts, traffic, versions) == []
    traffic.saw_line(line(["/a", "v2", "old", "7", 1]))
    puts += [Put("old", {"a": "v1", "b": "v2"}, 80, 200), Put("third", {"a": "v2"}, None, 0)]
    assert wrong_answers(puts, traffic, versions) == [
        "cluster old got v2",
        "cluster third got v2",
        "cluster old answered with v2",
    ]


def test_the_example_has_two_applications_and_every_edit_changes_what_it_says():
    manifest = ServiceDemo(example_files()["rayservice"])
    assert manifest.routes == {"greeter": "/greet", "adder": "/add"}
    upgraded, edited = manifest.new_version("v2"), manifest.new_config("v2", {"adder": "v3"})
    assert versions_of(yaml.safe_load(upgraded["serveConfigV2"])) == {
        "greeter": "v2",
        "adder": "v2",
    }
    assert versions_of(yaml.safe_load(edited["serveConfigV2"])) == {"greeter": "v2", "adder": "v3"}
    assert edited["rayClusterConfig"] == upgraded["rayClusterConfig"]
    for spec, suffix in ((manifest.object["spec"], ""), (upgraded, "-v2")):
        cluster = spec["rayClusterConfig"]
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            image = group["template"]["spec"]["containers"][0]["image"]
            assert image == f"rayproject/ray:2.60.0{suffix}"


def test_the_example_of_incremental_upgrades_differs_in_what_they_need_only():
    stepwise, plain = (
        ServiceDemo(example_files()[kind]) for kind in ("rayservice-incremental", "rayservice")
    )
    assert stepwise.routes == plain.routes
    assert [each["kind"] for each in stepwise.others] == ["GatewayClass", "ConfigMap"]
    assert stepwise.others[1:] == plain.others
    spec = dict(stepwise.object["spec"])
    options = spec.pop("upgradeStrategy")["clusterUpgradeOptions"]
    assert options["gatewayClassName"] == stepwise.others[0]["metadata"]["name"]
    assert spec["rayClusterConfig"].pop("enableInTreeAutoscaling")
    twice = spec.pop("serveConfigV2").replace("num_replicas: 2", "num_replicas: 1")
    assert spec | {"serveConfigV2": twice} == plain.object["spec"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda spec: spec.pop("serveConfigV2"), "needs a user_config with a version"),
        (lambda spec: spec.update(serveConfigV2="applications: []"), "fewer than two"),
        (lambda spec: spec.update(serveConfigV2="a: ]"), "cannot be played with"),
    ],
)
def test_a_manifest_that_cannot_be_played_with_is_refused(change: Any, why: str, tmp_path: Path):
    service, *_ = yaml.safe_load_all(example_files()["rayservice"].read_text())
    change(service["spec"])
    manifest = tmp_path / "service.yaml"
    manifest.write_text(yaml.safe_dump(service))
    with pytest.raises(ConfigurationError, match=why):
        ServiceDemo(manifest)


async def test_every_put_of_a_config_is_recorded_with_the_cluster_that_got_it():
    class Hooks:
        async def service_proxy(self, request, where):
            if request.body == b"{}":
                raise ConnectionError
            return json_response(200, {})

    class Server:
        hooks = Hooks()

    puts: list[Put] = []
    recorder = PutRecorder(Server(), puts.append)  # type: ignore[arg-type]
    assert Server.hooks.service_proxy == recorder
    config = {"applications": [{"name": "a", "deployments": [{"user_config": {"version": "v1"}}]}]}
    for method, path, body in (
        ("PUT", "api/serve/applications/", config | {"target_capacity": 20}),
        ("GET", "api/serve/applications/", {"applications": []}),
        ("PUT", "api/jobs/", {"applications": []}),
        ("PUT", "api/serve/applications/", {}),
    ):
        url = f"/api/v1/namespaces/default/services/greetings-x-head-svc:8265/proxy/{path}"
        request = ApiRequest(method, url, {}, {}, json.dumps(body).encode(), None)
        where = parse_resource_path(url)
        assert where is not None
        try:
            await recorder(request, where)
        except ConnectionError:
            assert body == {}
    assert [put.text() for put in puts] == [
        "PUT to greetings-x: a v1, capacity 20 % (200)",
        "PUT to greetings-x:  (no answer)",
    ]


ANSWER = b'{"version": "v1", "cluster": "c", "pid": 7, "sum": 3}'
KEPT = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
LAST = KEPT.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"


class Server:
    """Answers one request after the other, and counts connections."""

    def __init__(self, *replies: bytes) -> None:
        self.replies = list(replies)
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.replies:
            await reader.readuntil(b"\r\n\r\n")
            reply = self.replies.pop(0)
            writer.write(reply)
            if reply != KEPT:
                break
        writer.close()

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self, "127.0.0.1", 0)


def port_of(server: asyncio.Server) -> int:
    return server.sockets[0].getsockname()[1]


async def asks(port: int, *, times: int = 1) -> list[Any]:
    """What a client gets over one connection, or the errors."""

    async def one(connection: HTTPConnection) -> Any:
        try:
            return await asyncio.to_thread(ask, connection, "/a")
        except (OSError, HTTPException, ValueError) as error:
            return error

    with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        return [await one(connection) for _ in range(times)]


@pytest.mark.real_time
async def test_a_request_fails_unless_its_answer_has_status_200():
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\r\nno endpoint\n"
    server = await Server(KEPT, refusal, b"").listen()
    port = port_of(server)
    answer, refused, cut = await asks(port, times=3)
    assert answer == ("/a", "v1", "c", "7")
    assert str(refused) == "503 Service Unavailable: no endpoint"
    assert isinstance(cut, RemoteDisconnected)
    server.close()
    (closed,) = await asks(port)
    assert isinstance(closed, ConnectionRefusedError)


@pytest.mark.real_time
async def test_a_connection_is_kept_until_an_answer_closes_it():
    counting = Server(KEPT, KEPT, LAST, KEPT, KEPT)
    server = await counting.listen()
    assert len({*await asks(port_of(server), times=5)}) == 1
    assert counting.connections == 2
    server.close()


@pytest.mark.real_time
@pytest.mark.parametrize(
    "reply", [b"", KEPT[:-3], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"]
)
async def test_a_kept_connection_that_is_cut_under_a_request_is_a_failure(reply: bytes):
    counting = Server(KEPT, reply)
    server = await counting.listen()
    answer, cut = await asks(port_of(server), times=2)
    assert answer == ("/a", "v1", "c", "7")
    assert isinstance(cut, HTTPException)
    assert counting.connections == 1
    server.close()


def test_the_client_asks_the_service_by_its_name():
    pod = client_pod("rayproject/ray:1", "greetings-serve-svc", 8000, ["/a", "/b"])
    (container,) = pod["spec"]["containers"]
    assert container["command"][4:] == ["greetings-serve-svc", "8000", "/a", "/b"]
    compile(container["command"][3], "client", "exec")


@pytest.mark.real_time
def test_a_client_waits_for_answers_while_many_requests_are_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    answered = threading.Event()
    asked: list[str] = []

    def slow(_: HTTPConnection, path: str) -> tuple[str, str, str, str]:
        asked.append(path)
        answered.wait()
        return path, "v1", "one", "7"

    monkeypatch.setattr(serve_client, "ask", slow)
    monkeypatch.setattr(serve_client, "RATE", 200)
    running = threading.Thread(target=ServeClient("host", 80, ["/a", "/b"]).run, args=(1.5,))
    running.start()
    time.sleep(1.2)
    assert len(asked) == serve_client.OPEN
    assert capsys.readouterr().out.count("\n") == 1, "it tells all the same"
    answered.set()
    running.join()
    assert serve_client.OPEN < len(asked) < serve_client.OPEN + 70


def test_a_failed_demo_names_each_reason_and_no_group_of_tasks():
    inner = ExceptionGroup("unhandled errors in a TaskGroup", [StepFailed("no pod is ready")])
    outer = ExceptionGroup("unhandled errors in a TaskGroup", [inner, StepFailed("no answer")])
    assert failure_text(outer) == "no pod is ready; no answer"
