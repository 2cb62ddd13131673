"""Metrics of clients for Prometheus, under the names that client-go gave them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from controller.kube.transport import ClientMetrics

DURATIONS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZES = (64.0, 256.0, 512.0, 1024.0, 4096.0, *(float(4**power) for power in range(7, 13)))


class RestClientMetrics:
    """The `rest_client_*` metrics of one registry, shared by all clients of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            wanted = labels or ("verb", "host")
            return Histogram(name, text, wanted, buckets=buckets, registry=registry)

        self.requests = counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            *("code", "method", "host"),
        )
        self.retries = counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            *("code", "verb", "host"),
        )
        self.duration = histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, by verb and host.",
            DURATIONS,
        )
        self.waiting = histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that requests waited in the client, by verb and host.",
            DURATIONS,
        )
        self.resolution = histogram(
            "rest_client_dns_resolution_duration_seconds",
            "DNS resolver latency in seconds, by host.",
            DURATIONS[:-1],
            "host",
        )
        self.request_size = histogram(
            "rest_client_request_size_bytes", "Request size in bytes, by verb and host.", SIZES
        )
        self.response_size = histogram(
            "rest_client_response_size_bytes", "Response size in bytes, by verb and host.", SIZES
        )

    def for_host(self, host: str) -> ClientMetrics:
        """Return the metrics of a client of `host` (`10.0.0.1:6443`)."""
        return _HostMetrics(self, host)


class _HostMetrics(ClientMetrics):
    """Adds the host to the labels of one client."""

    def __init__(self, metrics: RestClientMetrics, host: str) -> None:
        self._metrics = metrics
        self._host = host

    def record_attempt(self, method: str, code: str, seconds: float | None) -> None:
        self._metrics.requests.labels(code, method, self._host).inc()
        if seconds is not None:
            self._metrics.duration.labels(method, self._host).observe(seconds)

    def record_retry(self, method: str, code: str) -> None:
        self._metrics.retries.labels(code, method, self._host).inc()

    def record_wait(self, method: str, seconds: float) -> None:
        self._metrics.waiting.labels(method, self._host).observe(seconds)

    def record_transfer(self, method: str, sent: int, received: int) -> None:
        self._metrics.request_size.labels(method, self._host).observe(sent)
        self._metrics.response_size.labels(method, self._host).observe(received)

    def record_resolution(self, seconds: float) -> None:
        self._metrics.resolution.labels(self._host).observe(seconds)
