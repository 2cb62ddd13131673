"""Settings and logs."""

from __future__ import annotations

import io
import json
import logging
import sys

import msgspec
import pytest
import structlog

from controller.runtime.logs import configure_logging
from controller.runtime.settings import Settings, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8080", ("::1", 8080)),
        ("", None),
        ("0", None),
    ],
)
def test_addresses_are_those_that_go_programs_take(text: str, address: tuple[str, int] | None):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "host:", "host:http", ":70000"])
def test_a_wrong_address_is_refused_by_name(text: str):
    with pytest.raises(ValueError, match=r"metrics_address: not .* host:port"):
        Settings(metrics_address=text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"client_concurrency": 0},
        {"sync_timeout_seconds": 0},
        {"reconcile_timeout_seconds": -1},
    ],
)
def test_values_without_sense_are_refused_by_name(wrong: dict):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        Settings(**wrong)


def test_unknown_settings_are_refused():
    with pytest.raises(msgspec.ValidationError, match="wrokers"):
        msgspec.convert({"wrokers": 3}, Settings)


@pytest.fixture
def restored_logging():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], level = before
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.usefixtures("restored_logging")
def test_lines_are_json_for_machines_and_libraries_write_the_same():
    out = io.StringIO()
    configure_logging(level="info", format="auto", stream=out)
    structlog.stdlib.get_logger("manta.test").info("pod.created", name="a", token="s3cret")
    structlog.stdlib.get_logger("manta.test").debug("too quiet")
    logging.getLogger("aiohttp.client").warning("closed %s", "early")
    structlog.stdlib.get_logger("manta.test").error("it.failed", exc_info=ValueError("inner words"))
    ours, theirs, failed = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (ours["event"], ours["level"], ours["name"]) == ("pod.created", "info", "a")
    assert ours["token"] == "***"
    assert (theirs["event"], theirs["level"]) == ("closed early", "warning")
    assert theirs["logger"] == "aiohttp.client"
    assert "inner words" in failed["exception"]
    assert ours["timestamp"].endswith("Z")


@pytest.mark.usefixtures("restored_logging")
def test_the_console_prints_tracebacks_without_local_variables():
    out = io.StringIO()
    configure_logging(format="console", stream=out)
    log = structlog.stdlib.get_logger("manta.test")

    def fail(password: str) -> int:
        return len(password) // 0

    try:
        fail(str(12_345_678))
    except ZeroDivisionError:
        log.exception("it.failed")
    assert "ZeroDivisionError" in out.getvalue()
    assert "12345678" not in out.getvalue()


@pytest.mark.usefixtures("restored_logging")
def test_logs_go_to_standard_error(capsys):
    configure_logging(format="json")
    structlog.stdlib.get_logger("manta.test").info("hello")
    sys.stderr.flush()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err
