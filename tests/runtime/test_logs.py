"""Lines of the log: for machines and for people, without secrets."""

from __future__ import annotations

import io
import json
import logging
import os
import time
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import structlog

from controller.apimachinery.redaction import HIDDEN
from controller.runtime.settings import configure_logging, current_level, shift_level


@pytest.fixture
def restored_logging():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    structlog.reset_defaults()
    yield
    logging.getLogger("aiohttp.access").setLevel(logging.NOTSET)
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
    assert ours["token"] == HIDDEN
    assert (theirs["event"], theirs["level"]) == ("closed early", "warning")
    assert theirs["logger"] == "aiohttp.client"
    assert "inner words" in failed["exception"]
    assert ours.keys() == {"event", "level", "logger", "name", "timestamp", "token"}
    assert ours["logger"] == "manta.test"
    assert ours["timestamp"].endswith("Z")
    assert theirs.keys() == {"event", "level", "logger", "timestamp"}


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("format_", "stream", "is_json"),
    [
        ("auto", io.StringIO, True),
        ("auto", Terminal, False),
        ("json", Terminal, True),
        ("console", io.StringIO, False),
    ],
)
def test_people_at_a_terminal_get_no_json(format_, stream, *, is_json: bool):
    out = stream()
    configure_logging(format=format_, stream=out)
    structlog.stdlib.get_logger("manta.test").info("hello")
    assert out.getvalue().startswith("{") is is_json


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("stream", "no_color", "coloured"),
    [(Terminal, "", True), (Terminal, "1", False), (io.StringIO, "", False)],
)
def test_colours_go_to_a_terminal_only_unless_they_are_not_wanted(
    stream, no_color: str, *, coloured: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("NO_COLOR", no_color)
    out, file = stream(), tmp_path / "log"
    configure_logging(format="console", stream=out, file=str(file), file_format="console")
    structlog.stdlib.get_logger("manta.test").info("hello", name="a")
    for handler in logging.getLogger().handlers:
        handler.close()
    assert ("\x1b[" in out.getvalue()) is coloured
    assert "hello" in file.read_text()
    assert "\x1b[" not in file.read_text()


@pytest.mark.usefixtures("restored_logging")
def test_a_terminal_gets_lines_from_level_info_on_by_default():
    out = Terminal()
    configure_logging(stream=out)
    structlog.stdlib.get_logger("manta.test").debug("too quiet")
    structlog.stdlib.get_logger("manta.test").info("loud enough")
    assert "loud enough" in out.getvalue()
    assert "too quiet" not in out.getvalue()
    assert not out.getvalue().startswith("{")


@pytest.mark.usefixtures("restored_logging")
def test_secrets_are_hidden_whoever_logs_them_and_however_they_are_written():
    out = io.StringIO()
    configure_logging(format="json", stream=out)
    secrets = {"Authorization": "Bearer x", "client_key_data": "x", "oldPassword": "x"}
    structlog.stdlib.get_logger("manta.test").info("ours", **secrets, path=PurePosixPath("/a"))
    logging.getLogger("library").warning("theirs", extra={"password": "x"}, stack_info=True)
    ours, theirs = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {ours[name] for name in secrets} == {HIDDEN}
    assert ours["path"] == "/a", "what is not JSON is written as text"
    assert theirs["password"] == HIDDEN
    assert "test_logs.py" in theirs["stack"]


SECRET = "s3cr3tValue0123456789"


class RequestError(Exception):
    """What a library raises with the request in its text."""


def fail() -> None:
    """Raise an error with a secret in its text, because of another one."""
    try:
        int(f"Authorization: Bearer {SECRET}")
    except ValueError as error:
        raise RequestError(f"no answer with token={SECRET}") from error


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize("format_", ["json", "console"])
@pytest.mark.parametrize("theirs", [True, False], ids=["library", "ours"])
@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"items": [{"spec": ({"name": "DB_PASSWORD", "value": SECRET},)}]},
        {"users": [{"user": {"client-key-data": SECRET, "token": SECRET}}]},
        {"error": f"refused: Authorization: Bearer {SECRET}"},
        {"error": RequestError(f"https://user:{SECRET}@example.com refused")},
        {"kubeconfig": f"users:\n- user:\n    token: {SECRET}\n    client-key-data: {SECRET}\n"},
        {"environment": {PurePosixPath("a"): {"HF_TOKEN": SECRET}}},
        {"ports": {8265: {"token": SECRET}}},
    ],
)
def test_secrets_are_hidden_at_any_depth_and_in_texts(
    fields: dict[str, Any], format_: Any, *, theirs: bool
):
    out = io.StringIO()
    configure_logging(format=format_, stream=out)
    if theirs:
        logging.getLogger("library").warning("told", extra=fields)
        logging.getLogger("library").warning("told %s", fields)
    else:
        structlog.stdlib.get_logger("manta.test").info("told", **fields)
    assert "told" in out.getvalue()
    assert HIDDEN in out.getvalue()
    assert SECRET not in out.getvalue()


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize("format_", ["json", "console"])
def test_secrets_are_hidden_in_the_text_of_an_exception_and_of_its_cause(format_: Any):
    out = io.StringIO()
    configure_logging(format=format_, stream=out)
    try:
        fail()
    except RequestError:
        structlog.stdlib.get_logger("manta.test").exception("ours")
        logging.getLogger("asyncio").exception("theirs")
    assert out.getvalue().count("ValueError: invalid literal") == 2
    assert out.getvalue().count("RequestError: no answer with token=") == 2
    assert SECRET not in out.getvalue()


@pytest.mark.usefixtures("restored_logging")
def test_requests_to_probes_are_not_logged():
    out = io.StringIO()
    configure_logging(level="debug", format="json", stream=out)
    logging.getLogger("aiohttp.access").info("GET /healthz")
    logging.getLogger("aiohttp.access").warning("odd request")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["odd request"]


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("before", "steps", "after", "severity"),
    [
        ("info", 1, "debug", "info"),
        ("debug", 1, "debug", "info"),
        ("debug", -1, "info", "info"),
        ("info", -1, "warning", "info"),
        ("warning", -1, "error", "warning"),
        ("error", -1, "error", "error"),
        ("error", 1, "warning", "warning"),
        ("warning", 1, "info", "info"),
    ],
)
def test_a_change_of_the_level_is_told_whatever_the_levels_are(
    before: Any, steps: int, after: str, severity: str
):
    out = io.StringIO()
    configure_logging(level=before, format="json", stream=out)
    shift_level(steps)
    [line] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (line["event"], line["level"]) == ("log.level", severity)
    assert (line["before"], line["after"]) == (before, after)
    assert current_level() == after


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("options", "is_json"),
    [({}, True), ({"file_format": "json"}, True), ({"file_format": "console"}, False)],
)
def test_a_file_is_rotated_and_has_a_format_of_its_own(
    tmp_path: Path, options: Any, *, is_json: bool
):
    path = tmp_path / "log"
    configure_logging(format="console", stream=io.StringIO(), file=str(path), **options)
    structlog.stdlib.get_logger("manta.test").info("pod.created")
    (line,) = path.read_text().splitlines()
    assert line.startswith("{") is is_json
    assert "pod.created" in line
    assert "\x1b" not in line, "no colours"
    rotated: Any = logging.getLogger().handlers[1]
    assert (rotated.maxBytes, rotated.backupCount) == (500 * 1024 * 1024, 10)
    rotated.close()


@pytest.mark.usefixtures("restored_logging")
def test_a_rotated_file_is_deleted_after_thirty_days(tmp_path: Path):
    path, days = tmp_path / "log", 24 * 3600
    for number, age in ((1, 29 * days), (2, 31 * days), (4, 300 * days)):
        rotated = path.with_name(f"log.{number}")
        rotated.touch()
        os.utime(rotated, times=2 * (time.time() - age,))
    configure_logging(stream=io.StringIO(), file=str(path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1"]
    os.utime(path.with_name("log.1"), times=2 * (time.time() - 31 * days,))
    handler: Any = logging.getLogger().handlers[1]
    handler.doRollover()
    handler.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1"]


@pytest.mark.usefixtures("restored_logging")
def test_a_level_above_all_others_counts_as_error():
    logging.getLogger().setLevel(logging.CRITICAL)
    assert current_level() == "error"
