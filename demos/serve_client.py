"""A client of Serve applications, for a pod: asks 20 times a second and prints what it got.

It asks less often while its last 20 requests are still open: a machine that cannot answer so many
would otherwise fall ever further behind.

Started as `python -c SOURCE HOST PORT PATH...`, with only the standard library at hand. It keeps
its connections, as clients do, until an answer says that the server closes one, and it repeats
nothing. Each line is the JSON of one second: the answers by path, version, cluster and process, and
why requests failed. A request has failed if it had no answer with status 200 in time.
"""

from __future__ import annotations

import itertools
import json
import select
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException

RATE = 20  # requests a second
OPEN = 20  # requests at a time
TIMEOUT = 30.0  # seconds for one request
LONGEST = 200  # bytes that are quoted of a refusal


class Second:
    """The requests that ended in the same second."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, ...]] = Counter()
        self.failures: list[str] = []
        self.slowest = 0.0

    def line(self) -> str:
        """Return the counts as JSON."""
        answers = [[*key, count] for key, count in sorted(self.answers.items())]
        counts = {"answers": answers, "failures": self.failures, "slowest": self.slowest}
        return json.dumps({"at": time.time(), **counts})


def ask(connection: HTTPConnection, path: str) -> tuple[str, str, str, str]:
    """Send one request; returns path, version, cluster and process of the answer.

    Raises:
        OSError: there was no connection, or it ended early.
        HTTPException: the answer is not complete.
        ValueError: the answer has another status, or is not that of such an application.
    """
    if connection.sock and select.select([connection.sock], [], [], 0)[0]:
        connection.close()  # as the server has
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except BaseException:
        connection.close()
        raise
    if answer.status != 200:
        said = body[:LONGEST].decode(errors="replace").strip()
        raise ValueError(f"{answer.status} {answer.reason}: {said}")
    found = json.loads(body)
    return path, str(found["version"]), str(found["cluster"]), str(found["pid"])


class ServeClient:
    """Asks the applications in turn."""

    def __init__(self, host: str, port: int, paths: list[str]) -> None:
        self._target = (host, port)
        self._paths = itertools.cycle(paths)
        self._threads = threading.local()
        self._second = Second()
        self._free = threading.Semaphore(OPEN)
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def run(self, seconds: float = float("inf")) -> None:
        """Ask until the process ends, or so many seconds."""
        end = time.monotonic() + seconds
        reporting = threading.Thread(target=self._report, daemon=True)
        reporting.start()
        with ThreadPoolExecutor(OPEN) as pool:
            while (began := time.monotonic()) < end:
                self._free.acquire()
                pool.submit(self._count, next(self._paths))
                time.sleep(max(0.0, began + 1 / RATE - time.monotonic()))
        self._ended.set()
        reporting.join()

    def _connection(self) -> HTTPConnection:
        """Return the connection of this thread."""
        host, port = self._target
        kept = self._threads.__dict__
        return kept.setdefault("connection", HTTPConnection(host, port, timeout=TIMEOUT))

    def _report(self) -> None:
        """Print a line each second."""
        while not self._ended.wait(1.0):
            with self._lock:
                second, self._second = self._second, Second()
            sys.stdout.write(f"{second.line()}\n")
            sys.stdout.flush()

    def _count(self, path: str) -> None:
        began, answer, failure = time.monotonic(), None, ""
        try:
            answer = ask(self._connection(), path)
        except (OSError, HTTPException, ValueError, KeyError) as error:
            failure = str(error) or type(error).__name__
        took = time.monotonic() - began
        with self._lock:
            self._second.slowest = max(self._second.slowest, round(took, 3))
            if answer is not None:
                self._second.answers[answer] += 1
            else:
                self._second.failures.append(f"{path}: {failure} (after {took:.1f} s)")
        self._free.release()


if __name__ == "__main__":
    ServeClient(sys.argv[1], int(sys.argv[2]), sys.argv[3:]).run()
