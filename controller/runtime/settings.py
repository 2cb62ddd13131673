"""The settings of the runtime, with units, defaults and the reasons for them, and its log."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec
import structlog
from structlog.typing import Processor

from controller.apimachinery.metadata import is_dns_label
from controller.apimachinery.redaction import redact_fields

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
"""Severities, from the most verbose to the least."""


HIGHEST_PORT: Final = 65535
_MOST_WORKERS: Final = 1000


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of one operator process.

    Raises:
        ValueError: a value makes no sense; the message names the setting.
    """

    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; empty means all, which needs a ClusterRole."""

    workers: int = 16
    """Concurrent reconciles of one kind. Workers only wait for the API server, which sixteen keep
    busy; planning is one at a time anyway. More than a thousand are a slip of the pen."""

    slow_reconciles: int = 1024
    """Maximum reconciles of one kind that continue without a worker, because their requests take
    long; beyond it workers wait for them. Each takes a few kilobytes."""

    metrics_address: str = ":8080"
    """`host:port` of /metrics; empty or `0` turns it off. KubeRay's default."""

    health_address: str = ":8082"
    """`host:port` of /healthz, /livez and /readyz; empty or `0` turns it off. May be the same as
    `metrics_address`. KubeRay's default."""

    debug_port: int = 0
    """Port of /debug on the loopback interface; 0 turns it off."""

    page_port: int = 0
    """Port of the web page on the loopback interface; 0 turns it off."""

    grace_seconds: float = 30.0
    """Seconds from the request to stop until everything is cancelled; reconciles get four fifths
    of it. Kubernetes' own default grace period of a pod."""

    sync_timeout_seconds: float = 120.0
    """Seconds after which incomplete caches end the process: longer than an API server takes to
    restart, shorter than a person's patience."""

    reconcile_timeout_seconds: float = 120.0
    """Maximum seconds for carrying out one plan, 0 for no limit. A batch of 64 writes at a slow
    server takes less; beyond it something is stuck."""

    client_concurrency: int = 80
    """Maximum requests in flight, instead of a rate limit (THR-2). One object gets at most a fifth
    of them, and another fifth is reserved for those that send only a few."""

    qps: float | None = None
    """Maximum requests a second to the API server, except watches and leases; None for no limit:
    the server's own flow control is fairer (THR-2)."""

    burst: int = 200
    """Requests that may be sent at once, if `qps` is given; KubeRay's default."""

    log_file: str = ""
    """A file that the log is written to as well; empty for none. It is rotated at 500 MB, and of
    the old ones ten are kept, for 30 days at most, as KubeRay does."""

    log_file_format: Literal["console", "json"] = "json"
    """Format of the lines in `log_file`."""

    identity: str = ""
    """Name of this process in events. Empty: that of the pod or host, with a random part, so that a
    second operator is noticed by its events."""

    leader_election: bool = False
    """True if this process works only while it holds the lease. `manta run` turns it on in a pod,
    as KubeRay does everywhere."""

    leader_election_namespace: str = ""
    """Namespace of the lease; empty for that of the pod."""

    log_level: LogLevel = "info"
    """Lowest severity that is logged. Reconciles that write nothing are `debug`."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """`auto` is `console` on a terminal, `json` elsewhere."""

    def __post_init__(self) -> None:
        """Check what the types cannot express."""
        if self.qps is not None and not self.qps > 0:
            raise ValueError("qps must be more than 0")
        for name in ("workers", "slow_reconciles", "client_concurrency", "burst"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.workers > _MOST_WORKERS:
            raise ValueError(f"workers must be at most {_MOST_WORKERS}")
        if self.sync_timeout_seconds <= 0:
            raise ValueError("sync_timeout_seconds must be more than 0")
        if self.reconcile_timeout_seconds < 0:
            raise ValueError("reconcile_timeout_seconds must not be negative")
        for name in ("debug_port", "page_port"):
            if not 0 <= getattr(self, name) <= HIGHEST_PORT:
                raise ValueError(f"{name} must be between 0 and {HIGHEST_PORT}")
        self._check_places()

    def _check_places(self) -> None:
        for namespace in self.namespaces:
            if not is_dns_label(namespace):
                raise ValueError(f"namespaces: {namespace!r} is not the name of a namespace")
        for name in ("metrics_address", "health_address"):
            try:
                parse_address(getattr(self, name))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error


def parse_address(text: str) -> tuple[str, int] | None:
    """Return host (empty for all) and port of `host:port`; None if turned off.

    Raises:
        ValueError: not of that form.
    """
    if text in {"", "0"}:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > HIGHEST_PORT:
        raise ValueError(f"not an address of the form host:port: {text!r}")
    return host.strip("[]"), int(port)


# The durations of an election.

_ELECTION_JITTER = 1.2


class ElectionTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of an election, in seconds.

    Raises:
        ValueError: they contradict each other; the message names the setting.
    """

    lease_seconds: int = 15
    """Time without change after which a candidate takes the lease."""

    renew_seconds: float = 10.0
    """Time after the last renewal at which a leader has lost and stops writing."""

    retry_seconds: float = 2.0
    """Time between two renewals; a candidate reads the lease twice in that time."""

    def __post_init__(self) -> None:
        """Check the relations between the durations."""
        if self.lease_seconds < 1:
            raise ValueError("lease_seconds must be at least 1")
        if self.renew_seconds < 1:
            raise ValueError("renew_seconds must be at least 1")
        if self.retry_seconds <= 0:
            raise ValueError("retry_seconds must be more than 0")
        if self.lease_seconds <= self.renew_seconds:
            raise ValueError("lease_seconds must be more than renew_seconds")
        if self.renew_seconds <= _ELECTION_JITTER * self.retry_seconds:
            raise ValueError(
                f"renew_seconds must be more than {_ELECTION_JITTER} times retry_seconds"
            )


# Configures structlog: console format on a terminal, JSON lines elsewhere.
#
# Messages that libraries log through the standard library (asyncio, aiohttp, the informers) use the
# same renderer. Secrets are never printed: values of fields with the name of one, at any depth, and
# what looks like one in a text, a traceback included.

_FILE_BYTES = 500 * 1024 * 1024
_FILES_KEPT = 10
_SECONDS_KEPT = 30 * 24 * 3600
_LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")
_NUMBERS: Final[dict[LogLevel, int]] = {
    each: logging.getLevelNamesMapping()[each.upper()] for each in _LEVELS
}

_log = structlog.stdlib.get_logger("manta.logs")


def configure_logging(
    *,
    level: LogLevel = "info",
    format: Literal["auto", "console", "json"] = "auto",  # noqa: A002  the setting's name
    stream: TextIO | None = None,
    file: str = "",
    file_format: Literal["console", "json"] = "json",
) -> None:
    """Set up logging for the process. May be called again; the last call counts.

    Lines go to standard error, or another `stream`, and to a `file`, if one is given, which is
    rotated. Colours go to a terminal only, and not there either if `NO_COLOR` is set.

    Raises:
        OSError: the file cannot be written.
    """
    out = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handlers: list[logging.Handler] = [logging.StreamHandler(out)]
    colours = out.isatty() and not os.environ.get("NO_COLOR")
    handlers[0].setFormatter(_formatter(shared, _is_console(format, out), colours=colours))
    if file:
        rotated = _log_file(file)
        rotated.setFormatter(_formatter(shared, file_format == "console", colours=False))
        handlers.append(rotated)
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def current_level() -> LogLevel:
    """Return the lowest severity that is logged, as `configure_logging` takes it."""
    level = logging.getLogger().level
    for each in _LEVELS:
        if level <= _NUMBERS[each]:
            return each
    return _LEVELS[-1]


def shift_level(steps: int) -> None:
    """Log `steps` more severities, or fewer if negative, and log the change.

    The level stays between `debug` and `error`.
    """
    before = current_level()
    place = _LEVELS.index(before) - steps
    after = _LEVELS[min(max(place, 0), len(_LEVELS) - 1)]
    louder = min(_NUMBERS[before], _NUMBERS[after])
    root = logging.getLogger()
    root.setLevel(louder)
    _log.log(max(logging.INFO, louder), "log.level", before=before, after=after)
    root.setLevel(_NUMBERS[after])


def _log_file(path: str) -> logging.Handler:
    """Return a handler that rotates the log by size, and deletes rotated files that are too old."""
    from logging.handlers import RotatingFileHandler  # noqa: PLC0415  0.5 MiB, pickle included

    handler = RotatingFileHandler(path, maxBytes=_FILE_BYTES, backupCount=_FILES_KEPT)

    def rotate(source: str, target: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            Path(source).rename(target)
        _delete_old_files(handler.baseFilename)

    handler.rotator = rotate
    _delete_old_files(handler.baseFilename)
    return handler


def _delete_old_files(path: str) -> None:
    """Delete rotated files to which nothing has been written for 30 days."""
    oldest = time.time() - _SECONDS_KEPT
    for number in range(1, _FILES_KEPT + 1):
        rotated = Path(f"{path}.{number}")
        with contextlib.suppress(FileNotFoundError):
            if rotated.stat().st_mtime < oldest:
                rotated.unlink()


def _formatter(shared: list[Processor], console: bool, *, colours: bool) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _hide_secrets,
            _renderer(console, colours=colours),
        ],
    )


def _is_console(format: str, out: TextIO) -> bool:  # noqa: A002  as above
    return format == "console" or (format == "auto" and out.isatty())


def _renderer(console: bool, *, colours: bool) -> Processor:
    if console:
        return structlog.dev.ConsoleRenderer(colors=colours)
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(value: Any, **_options: Any) -> str:
    return msgspec.json.encode(value).decode()


def _hide_secrets(
    _logger: Any, _method: str, fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return redact_fields(msgspec.to_builtins(fields, enc_hook=str, str_keys=True))
