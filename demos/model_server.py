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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn

SERVER = "/workspace/vllm/inference_api.py"
NOTICE = "This is a stand-in, not a language model."


class StandIn(BaseHTTPRequestHandler):
    """One connection to a server of the name of a model, and of no model."""

    protocol_version = "HTTP/1.1"
    server_version = "manta-stand-in"
    model = "model"

    def do_GET(self) -> None:
        """Answer `/health` and `/v1/models`."""
        entry = {"id": self.model, "object": "model", "owned_by": NOTICE}
        pages = {"/health": {}, "/v1/models": {"object": "list", "data": [entry]}}
        if self.path in pages:
            self._answer(200, pages[self.path])
        else:
            self._refuse(404, f"there is no {self.path}")

    def do_POST(self) -> None:
        """Answer `/v1/chat/completions`: repeat the question."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/v1/chat/completions":
            self._refuse(404, f"there is no {self.path}")
            return
        match _decoded(body):
            case {"model": self.model, "messages": [*_, {"role": "user", "content": str(asked)}]}:
                text = f"{NOTICE} It stands where {self.model} would be. You asked: {asked}"
                _print(f"answered: {text}")
                self._answer(200, _completion(self.model, text))
            case _:
                self._refuse(400, f"this is no question to {self.model}, a text of the role user")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing: most requests are probes."""

    def _refuse(self, status: int, why: str) -> None:
        self._answer(status, {"error": {"message": why, "type": "invalid_request_error"}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _completion(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-stand-in",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }


def _print(text: str) -> None:
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
    flags = dict(word.removeprefix("--").split("=", 1) for word in words[1:] if "=" in word)
    StandIn.model, port = flags.get("served-model-name", "model"), int(flags.get("port", "5000"))
    signal.signal(signal.SIGTERM, _end)
    with ThreadingHTTPServer(("", port), StandIn) as server:
        _print(f"{NOTICE} It serves the name {StandIn.model} at port {port}, without weights.")
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
