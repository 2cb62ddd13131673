"""What looks like a secret is not kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.redaction import (
    HIDDEN,
    excerpt,
    in_short,
    last_error,
    last_lines,
    redact,
)

SECRET = "s3cr3tvalue0123456789"


@pytest.mark.parametrize(
    "line",
    [
        f"password={SECRET}",
        f"DB_PASSWORD: {SECRET}",
        f'{{"api_key": "{SECRET}", "other": 1}}',
        f"Authorization: Bearer {SECRET}",
        f"curl -H 'x-ray-authorization: Bearer {SECRET}'",
        f"https://user:{SECRET}@example.com/path",
        f"redis://:{SECRET}@redis:6379",
        f"--token {SECRET} --verbose",
        f"HF_TOKEN={SECRET}",
        f"aws_secret_access_key = {SECRET}",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "hf_abcdefghijklmnopqrstuv",
        "sk-abcdefghijklmnopqrstuvwx",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEow",
        f"MY_TOKEN_2={SECRET}",
        f"--hf-token {SECRET}",
        f"client-key-data: {SECRET}",
        f'{{"name":"DB_PASSWORD","value":"{SECRET}"}}',
        f"- name: HF_TOKEN\n  value: {SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_hidden(line: str):
    told = redact(f"before {line} after")
    assert HIDDEN in told
    assert SECRET not in told
    for part in ("EXAMPLE", "mnopqrst", "MIIEow", "c2lnbmF0dXJl"):
        assert part not in told
    assert told.startswith("before ")


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        '  File "job.py", line 3, in <module>',
        "ValueError: 12 tokens were expected, 13 found",
        "2026-11-20 12:00:00 INFO worker.py:1832 -- Connected to Ray cluster at 10.88.0.2:6379",
        "https://example.com/path?page=2",
        "Job 'pi-abcde' failed with exit code 1",
    ],
)
def test_what_explains_a_failure_is_kept(line: str):
    assert redact(line) == line


def test_only_the_end_is_kept_and_not_much_of_it():
    text = "\n".join(f"line {number}" for number in range(100))
    assert last_lines(text, lines=2, characters=100) == "line 98\nline 99"
    assert last_lines("x" * 9000, lines=5, characters=4096) == "x" * 4096


def test_a_key_whose_beginning_was_cut_off_is_hidden():
    assert redact("MIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----\ndone") == f"{HIDDEN}\ndone"


def test_of_a_long_text_beginning_and_end_are_kept():
    text = "failed:\n" + "x " * 5000 + "\nValueError: no"
    told = excerpt(text, characters=2048)
    assert len(told) == 2048
    assert told.startswith("failed:\nx x")
    assert told.endswith("x \nValueError: no")
    assert excerpt("short", characters=2048) == "short"


@pytest.mark.parametrize(
    "piece",
    [
        "\x1b",
        "\x1b]",
        "a.",
        "Error",
        "x",
        "-",
        "--",
        "token",
        "--token",
        "token ",
        "a.b-",
        "eyJ-",
        "://a:",
        '"token"',
        " ",
    ],
)
def test_an_odd_text_does_not_hold_the_operator_up(piece: str):
    text = ("token" + piece * 10_000)[:10_000]
    started = time.process_time()
    excerpt(text, characters=2048)
    in_short(text)
    assert time.process_time() - started < 2


@given(st.text(max_size=300))
def test_any_text_can_be_redacted(text: str):
    assert isinstance(redact(text), str)


@pytest.mark.parametrize(
    "coloured",
    [
        "\x1b[31mValueError\x1b[0m: no \x1b[1;38;5;9mmodel\x1b[m",
        "\x1b]8;;http://x\x07ValueError\x1b]8;;\x1b\\: no \x1b[2Kmodel",
    ],
)
def test_colours_and_links_of_a_terminal_are_not_kept(coloured: str):
    assert redact(coloured) == "ValueError: no model"


def test_an_error_in_short_is_what_happened_and_the_exception_of_its_traceback():
    said = (
        "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 "
        'chars):\nTraceback (most recent call last):\n  File "a.py", line 1\n'
        "\x1b[31mTypeError\x1b[0m: unexpected keyword argument 'x'\n...\n"
    )
    assert in_short(said) == (
        "Job entrypoint command failed with exit code 1: TypeError: unexpected keyword argument 'x'"
    )
    assert in_short("one sentence.\n") == "one sentence."
    assert in_short("") == ""
    assert len(in_short("x" * 5000)) < 600


TRACEBACK = """Traceback (most recent call last):
  File "job.py", line 3, in <module>
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{TRACEBACK}ValueError: boom", "ValueError: boom"),
        (f"{TRACEBACK}ValueError: first\nsecond\n\n10:00 INFO bye", "ValueError: first"),
        (
            (
                f"{TRACEBACK}ray.exceptions.RayTaskError(ValueError): \x1b[36mf()\x1b[39m\n"
                '  File "job.py", line 1, in f\nValueError: boom'
            ),
            "ValueError: boom",
        ),
        (f"RuntimeError: {TRACEBACK}RuntimeError: no model", "RuntimeError: no model"),
        (f"{TRACEBACK}KeyError: 'a'\n\nDuring handling\n\n{TRACEBACK}OSError: b", "OSError: b"),
        ("(f pid=12, ip=10.0.0.1) ValueError: boom\n(raylet) bye", "ValueError: boom"),
        ("Usage: ray job submit\n\nError: No such option: --x\n", "Error: No such option: --x"),
        ("usage: a.py [-h]\na.py: error: no argument --x\nbye", "a.py: error: no argument --x"),
        (
            (
                "bash: -c: line 1: syntax error near unexpected token `('\n"
                "bash: -c: line 1: `ray job submit -- a (b)'"
            ),
            "bash: -c: line 1: syntax error near unexpected token `('",
        ),
        ("one\n  two  \n\n", "two"),
        ("\n \n", ""),
    ],
    ids=range(11),
)
def test_the_line_with_the_error_is_found_wherever_it_stands(text: str, line: str):
    assert last_error(text) == line


def test_one_line_keeps_its_error_and_no_secret_however_long_its_beginning_is():
    told = in_short(f"{'begin ' * 200}\nTypeError: token={SECRET}")
    assert len(told) < 520
    assert told.endswith(f"...: TypeError: token={HIDDEN}")


def test_the_error_is_kept_though_much_follows_it():
    text = f"{'start ' * 300}\n{TRACEBACK}ValueError: boom\n" + "  later\n" * 900
    told = excerpt(text, characters=2048)
    assert len(told) == 2048
    assert told.count("\n...\nValueError: boom\n...\n") == 1
