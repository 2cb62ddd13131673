"""What looks like a secret is not kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.redaction import HIDDEN, excerpt, in_short, last_lines, redact

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
    "piece", ["x", "-", "--", "token", "--token", "token ", "a.b-", "eyJ-", "://a:", '"token"', " "]
)
def test_an_odd_text_does_not_hold_the_operator_up(piece: str):
    text = ("token" + piece * 10_000)[:10_000]
    started = time.process_time()
    redact(text)
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
