"""Configures structlog: console format on a terminal, JSON lines elsewhere.

Messages that libraries log through the standard library (asyncio, aiohttp, the informers) use the
same renderer. Secrets are never printed: values of fields with the name of one, at any depth, and
what looks like one in a text, a traceback included.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog
from structlog.typing import Processor

from controller.apimachinery.redaction import redact_fields
from controller.runtime.settings import LogLevel

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


# The single log line of a reconcile.

_log_of_reconciles = structlog.stdlib.get_logger("manta.reconcile")


@dataclass(slots=True)
class ReconcileLog:
    """The fields of the line, filled in while the reconcile runs. Times are in milliseconds."""

    name: str
    reconcile_id: str
    priority: int
    observe_ms: float = 0.0
    plan_ms: float = 0.0
    execute_ms: float = 0.0
    result: str = "gone"
    writes: Mapping[str, int] = field(default_factory=dict[str, int])
    requeue_after: float | None = None
    error: str = ""

    def write(self, controller: str, kind: str) -> None:
        """Log the line, on level debug if nothing was written."""
        namespace, _, name = self.name.rpartition("/")
        fields: dict[str, Any] = {
            "controller": controller,
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "reconcile_id": self.reconcile_id,
            "priority": self.priority,
            "observe_ms": round(self.observe_ms, 2),
            "plan_ms": round(self.plan_ms, 2),
            "execute_ms": round(self.execute_ms, 2),
            "result": self.result,
        }
        if self.writes:
            fields["writes"] = dict(self.writes)
        if self.requeue_after is not None:
            fields["requeue_after"] = round(self.requeue_after, 3)
        if self.error:
            fields["error"] = self.error
        if self.result in {"error", "terminal", "failed"}:
            _log_of_reconciles.warning("reconcile", **fields)
        elif self.writes:
            _log_of_reconciles.info("reconcile", **fields)
        else:
            _log_of_reconciles.debug("reconcile", **fields)
