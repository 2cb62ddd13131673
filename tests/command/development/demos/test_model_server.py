"""The stand-in for a model server, and the end of the operator's process."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.command.development.demos import stage
from controller.command.development.demos.model_server import (
    NOTICE,
    SERVER,
    RefusedRequest,
    StandIn,
    StandInHandler,
    main,
)
from controller.command.development.demos.stage import OperatorProcess
from controller.command.development.demos.workspace import model_server_image
from tests.fakes.clean_up import ends_in_a_cancelled_task

USER = {"role": "user", "content": "Why is the sky blue?"}


def asked(**request: Any) -> dict[str, Any]:
    body = json.dumps({"model": "phi", "messages": [USER], **request}).encode()
    return StandIn("phi").completion(body, 1_700_000_000)


def test_an_answer_has_openais_form_says_that_it_is_no_models_and_repeats_the_question():
    answer = asked()
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].startswith(NOTICE)
    assert choice["message"]["content"].endswith("Why is the sky blue?")
    assert choice["finish_reason"] == "stop"
    assert (answer["object"], answer["model"]) == ("chat.completion", "phi")
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize(
    ("request_body", "words"),
    [
        ({"model": "falcon"}, "'falcon' is not served, but 'phi'"),
        ({"stream": True}, "does not stream"),
        ({"messages": []}, "the last of the messages"),
        ({"messages": None}, "the last of the messages"),
        ({"messages": [USER, {"role": "assistant", "content": "a"}]}, "the last of the messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "the last of the"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused(request_body: dict[str, Any], words: str):
    with pytest.raises(RefusedRequest, match=words):
        asked(**request_body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"7"])
def test_a_body_that_is_no_request_is_refused(body: bytes):
    with pytest.raises(RefusedRequest):
        StandIn("phi").completion(body, 1)


def test_only_the_model_server_is_stood_in_for(capsys: pytest.CaptureFixture[str]):
    assert main(["/workspace/tfs/inference_api.py"]) == 2
    assert main([]) == 2
    assert SERVER in capsys.readouterr().err


@pytest.fixture
def connection() -> Iterator[http.client.HTTPConnection]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(StandInHandler, StandIn("phi"))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        yield client
        client.close()
        server.shutdown()
        thread.join()


def talk(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_it_speaks_http(connection: http.client.HTTPConnection, capsys: Any):
    assert talk(connection, "GET", "/health") == (200, {})
    status, listed = talk(connection, "GET", "/v1/models")
    assert (status, [each["id"] for each in listed["data"]]) == (200, ["phi"])
    assert listed["data"][0]["owned_by"] == NOTICE
    question = json.dumps({"messages": [USER]})
    status, answer = talk(connection, "POST", "/v1/chat/completions", question)
    assert status == 200
    assert NOTICE in answer["choices"][0]["message"]["content"]
    assert talk(connection, "POST", "/v1/chat/completions", "{")[0] == 400
    assert talk(connection, "GET", "/metrics")[0] == 404
    assert talk(connection, "POST", "/v1/embeddings", "{}")[0] == 404
    too_long = {"Content-Length": "2000000"}
    assert talk(connection, "POST", "/v1/chat/completions", headers=too_long)[0] == 413
    assert f"answered: {NOTICE}" in capsys.readouterr().out


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
