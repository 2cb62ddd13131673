"""A stand-in for vLLM: it answers like a model server and says in each answer that it is none.

It is a program of its own, with nothing but the standard library: the container of a Workspace runs
it as `python3 /workspace/vllm/inference_api.py FLAGS`. Of the flags it reads the port and the name
of the model. Requests and answers are OpenAI's `/v1/models` and `/v1/chat/completions`.
"""

import json
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NoReturn

SERVER = "/workspace/vllm/inference_api.py"
NOTICE = "This is a stand-in, not a language model."
_PORT = 5000
_LONGEST_REQUEST = 1 << 20  # bytes

Json = dict[str, Any]


class RefusedRequest(Exception):  # noqa: N818  named for what happens to it
    """The client's request cannot be answered; the message says why."""


def flags_of(arguments: Sequence[str]) -> dict[str, str]:
    """Return the values of `--name=value`."""
    pairs = (word.removeprefix("--").partition("=") for word in arguments if word.startswith("--"))
    return {name: value for name, _, value in pairs}


class StandIn:
    """The answers of a server that serves the name of a model, and no model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers = count(1)

    def models(self) -> Json:
        """Return the answer to `/v1/models`."""
        entry = {"id": self.name, "object": "model", "owned_by": NOTICE}
        return {"object": "list", "data": [entry]}

    def completion(self, body: bytes, now: int) -> Json:
        """Return the answer to `/v1/chat/completions`; it repeats the question.

        Raises:
            RefusedRequest: it asks for another model, or holds no question.
        """
        question = self._question(body)
        text = f"{NOTICE} It stands where {self.name} would be. You asked: {question}"
        asked, told = len(question.split()), len(text.split())
        message = {"role": "assistant", "content": text}
        return {
            "id": f"chatcmpl-stand-in-{next(self._numbers)}",
            "object": "chat.completion",
            "created": now,
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": asked,
                "completion_tokens": told,
                "total_tokens": asked + told,
            },
        }

    def _question(self, body: bytes) -> str:
        try:
            request = json.loads(body)
        except ValueError as error:
            raise RefusedRequest(f"the request is no JSON: {error}") from error
        match request:
            case {"stream": True}:
                raise RefusedRequest("the stand-in does not stream its answers")
            case {"model": model} if model != self.name:
                raise RefusedRequest(f"the model {model!r} is not served, but {self.name!r}")
            case {"messages": [*_, {"role": "user", "content": str(question)}]}:
                return question
            case _:
                raise RefusedRequest("the last of the messages must be a text of the role user")


class StandInHandler(BaseHTTPRequestHandler):
    """One connection to a stand-in."""

    protocol_version = "HTTP/1.1"
    server_version = "manta-stand-in"

    def __init__(self, stand_in: StandIn, *connection: Any) -> None:
        self._stand_in = stand_in
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer `/health` and `/v1/models`."""
        if self.path == "/health":
            self._answer(200, {})
        elif self.path == "/v1/models":
            self._answer(200, self._stand_in.models())
        else:
            self._refuse(404, f"there is no {self.path}")

    def do_POST(self) -> None:
        """Answer `/v1/chat/completions`."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > _LONGEST_REQUEST:
            self.close_connection = True
            self._refuse(413, f"a request may have {_LONGEST_REQUEST} bytes")
            return
        body = self.rfile.read(size)
        if self.path != "/v1/chat/completions":
            self._refuse(404, f"there is no {self.path}")
            return
        try:
            answer = self._stand_in.completion(body, int(time.time()))
        except RefusedRequest as error:
            self._refuse(400, str(error))
        else:
            say(f"answered: {answer['choices'][0]['message']['content']}")
            self._answer(200, answer)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing: most requests are probes."""

    def _refuse(self, status: int, why: str) -> None:
        self._answer(status, {"error": {"message": why, "type": "invalid_request_error"}})

    def _answer(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def say(text: str) -> None:
    """Write a line to the log of the container."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _end(*_: Any) -> NoReturn:
    """End, also as the first process of a container, which the default would not."""
    sys.exit(0)


def main(words: Sequence[str]) -> int:
    """Serve until SIGTERM; returns the exit status if the words after `python3` are not for it."""
    if not words or words[0] != SERVER:
        sys.stderr.write(f"the stand-in only runs {SERVER}, not: {' '.join(words)}\n")
        return 2
    flags = flags_of(words[1:])
    name, port = flags.get("served-model-name", "model"), int(flags.get("port", _PORT))
    signal.signal(signal.SIGTERM, _end)
    with ThreadingHTTPServer(("", port), partial(StandInHandler, StandIn(name))) as server:
        say(f"{NOTICE} It serves the name {name} at port {port}, without weights or GPUs.")
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
