"""The stand-in for a model server, and the end of the operator's process."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demos import stage
from demos.model_server import NOTICE, SERVER, StandIn, main
from demos.stage import OperatorProcess
from demos.workspace import model_server_image
from tests.fakes.clean_up import ends_in_a_cancelled_task

USER = {"role": "user", "content": "Why is the sky blue?"}
ASKED = {"model": "phi", "messages": [USER]}


def test_only_the_model_server_is_stood_in_for(capsys: pytest.CaptureFixture[str]):
    assert main(["/workspace/tfs/inference_api.py"]) == 2
    assert main([]) == 2
    assert SERVER in capsys.readouterr().err


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[http.client.HTTPConnection]:
    monkeypatch.setattr(StandIn, "model", "phi")
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        yield client
        client.close()
        server.shutdown()
        thread.join()


def talk(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
) -> tuple[int, Any]:
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_it_answers_as_openai_does_and_says_that_it_is_no_model(
    connection: http.client.HTTPConnection, capsys: Any
):
    assert talk(connection, "GET", "/health") == (200, {})
    status, listed = talk(connection, "GET", "/v1/models")
    assert (status, [each["id"] for each in listed["data"]]) == (200, ["phi"])
    assert listed["data"][0]["owned_by"] == NOTICE
    status, answer = talk(connection, "POST", "/v1/chat/completions", json.dumps(ASKED))
    assert (status, answer["object"], answer["model"]) == (200, "chat.completion", "phi")
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].startswith(NOTICE)
    assert choice["message"]["content"].endswith("Why is the sky blue?")
    assert choice["finish_reason"] == "stop"
    assert f"answered: {NOTICE}" in capsys.readouterr().out
    assert talk(connection, "GET", "/metrics")[0] == 404
    assert talk(connection, "POST", "/v1/embeddings", "{}")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        *("", "{", "\xff", "[]", "7"),
        json.dumps(ASKED | {"model": "falcon"}),
        json.dumps(ASKED | {"messages": []}),
        json.dumps(ASKED | {"messages": None}),
        json.dumps(ASKED | {"messages": [USER, {"role": "assistant", "content": "a"}]}),
        json.dumps(ASKED | {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
    ],
)
def test_what_is_no_question_to_it_is_refused(connection: http.client.HTTPConnection, body: str):
    status, answer = talk(connection, "POST", "/v1/chat/completions", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


def test_its_environment_needs_nothing_but_an_interpreter(tmp_path: Path):
    image = model_server_image(tmp_path / "image")
    assert image.path == tmp_path / "image"
    done = subprocess.run(
        ["python3", "another.py"],
        env={"PATH": f"{image.path / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"the stand-in only runs {SERVER}, not: another.py\n"


DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(1000)"
)


@pytest.mark.real_time
async def test_one_that_does_not_end_is_killed_even_in_a_task_that_has_been_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage, "_PATIENCE", 0.1)
    cluster: Any = SimpleNamespace(kubeconfig_cluster=dict, kubeconfig_user=dict)
    node: Any = SimpleNamespace(folder=tmp_path, environment_of=lambda _: {})
    operator = OperatorProcess(cluster, node)
    process = operator._process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", DEAF, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"deaf\n"
    try:
        assert await ends_in_a_cancelled_task(operator.aclose())
        assert process.returncode == -9
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
