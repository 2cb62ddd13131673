"""What a client tells about its requests, and the Prometheus form of it with upstream's names.

The client calls a `ClientMetrics`; it neither knows Prometheus nor which host it talks to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

DURATIONS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZES = (
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262144.0,
    1048576.0,
    4194304.0,
    16777216.0,
)


class ClientMetrics(Protocol):
    """Told by a client, once an attempt. `method` is the HTTP method."""

    def answered(self, method: str, code: str, seconds: float | None) -> None:
        """An attempt ended with `code`, `<error>` for none. `seconds` is None for streams."""
        ...

    def retried(self, method: str, code: str) -> None:
        """The request is going to be sent again because of `code`."""
        ...

    def waited(self, method: str, seconds: float) -> None:
        """The request waited this long for the shared pause and for a slot."""
        ...

    def transferred(self, method: str, sent: int, received: int) -> None:
        """Bytes of the bodies of a complete exchange."""
        ...


class _NoMetrics:
    """Counts nothing."""

    def answered(self, method: str, code: str, seconds: float | None) -> None:
        pass

    def retried(self, method: str, code: str) -> None:
        pass

    def waited(self, method: str, seconds: float) -> None:
        pass

    def transferred(self, method: str, sent: int, received: int) -> None:
        pass


NO_METRICS: ClientMetrics = _NoMetrics()


class RestClientMetrics:
    """The `rest_client_*` metrics of one registry, shared by all clients of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "method", "host"],
            registry=registry,
        )
        self.retries = Counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            ["code", "verb", "host"],
            registry=registry,
        )
        self.duration = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, by verb and host.",
            ["verb", "host"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.waiting = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that requests waited in the client, by verb and host.",
            ["verb", "host"],
            buckets=DURATIONS,
            registry=registry,
        )
        self.request_size = Histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes, by verb and host.",
            ["verb", "host"],
            buckets=SIZES,
            registry=registry,
        )
        self.response_size = Histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes, by verb and host.",
            ["verb", "host"],
            buckets=SIZES,
            registry=registry,
        )

    def of(self, host: str) -> ClientMetrics:
        """What a client that talks to `host` (`10.0.0.1:6443`) is given."""
        return _HostMetrics(self, host)


class _HostMetrics:
    """Adds the host to what a client tells."""

    def __init__(self, metrics: RestClientMetrics, host: str) -> None:
        self._metrics = metrics
        self._host = host

    def answered(self, method: str, code: str, seconds: float | None) -> None:
        self._metrics.requests.labels(code, method, self._host).inc()
        if seconds is not None:
            self._metrics.duration.labels(method, self._host).observe(seconds)

    def retried(self, method: str, code: str) -> None:
        self._metrics.retries.labels(code, method, self._host).inc()

    def waited(self, method: str, seconds: float) -> None:
        self._metrics.waiting.labels(method, self._host).observe(seconds)

    def transferred(self, method: str, sent: int, received: int) -> None:
        self._metrics.request_size.labels(method, self._host).observe(sent)
        self._metrics.response_size.labels(method, self._host).observe(received)
