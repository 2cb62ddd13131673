"""Runtime environments: YAML as KubeRay reads it, and nothing that brings the operator down."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.user_yaml import InvalidYaml
from controller.ray.api.fields.runtime_env import MOST_BYTES, read_runtime_env

BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 8)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
WIDE = f"a: &a {{{', '.join(f'k{n}: 1' for n in range(3000))}}}\nb:\n" + "- {<<: *a}\n" * 2000
LONG = f"a: &a {'x' * 60_000}\nb: [{', '.join(['*a'] * 9000)}]\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-08-20", "2026-08-20"),
        ("2026-08-20T10:00:00Z", "2026-08-20T10:00:00Z"),
        ("1:30", "1:30"),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("010", 8),
        ("0o10", 8),
        ("08", 8),
        ("0x1F", 31),
        ("1_000", 1000),
        ("yes", True),
        ("n", False),
        ("Off", False),
        ("~", None),
        ("", None),
        ("2.52.0", "2.52.0"),
        ("'1'", "1"),
        ("=", "="),
        ("|\n  x\n  y\n", "x\ny\n"),
    ],
)
def test_values_are_read_as_kuberay_reads_them(text: str, value: Any):
    read = read_runtime_env(f"key: {text}")["key"]
    assert (read, type(read)) == (value, type(value))


def test_keys_become_text():
    assert read_runtime_env("2: a\ntrue: b\n") == {"2": "a", "true": "b"}


def test_of_a_key_that_stands_twice_the_last_one_counts():
    assert read_runtime_env("a: 1\na: 2\n") == {"a": 2}


def test_merged_mappings_yield_to_own_keys_and_the_first_of_a_list_counts():
    text = "a: &a {x: 1, u: 1}\nb: &b {u: 2, z: 2}\nc: {z: 3, <<: [*a, *b]}\nd: &d {<<: *d}"
    read = read_runtime_env(text)
    assert (read["c"], read["d"]) == ({"x": 1, "u": 1, "z": 3}, {})


@pytest.mark.parametrize("text", ["", "# nothing", "null", "---\n"])
def test_text_without_a_value_is_an_empty_environment(text: str):
    assert read_runtime_env(text) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a]", "must be a mapping"),
        ("text", "must be a mapping"),
        ("a: b: c", "is not YAML: mapping values are not allowed in this context in line 1"),
        ("a: 1\n--- \nb: 2\n", "is not YAML"),
        ("a: .inf", "the number inf"),
        ("a: 1e400", "the number inf"),
        ("a: .nan", "the number nan"),
        ("a: !!set {b}", "of type set"),
        ("a: !!binary YQ==", "of type bytes"),
        ("a: !!int ''", "is not YAML"),
        ("a: !!timestamp x", "is not YAML"),
        ("!!python/object:os.system {}", "is not YAML"),
        ("? [a]\n: b", "is not YAML"),
        ("1.5: a", "a key of type float"),
        ("a: *b", "is not YAML"),
        ("a: " + "9" * 5000, "is not YAML"),
        ("\x00", "is not YAML"),
        ("a: \ud800", "is not YAML"),
        ("[" * 60_000, "levels deep"),
        ("{a: " * 30_000, "levels deep"),
        ("- " * 60_000 + "a", "levels deep"),
        ("? " * 60_000, "levels deep"),
        ("a: &a [*a]", "levels deep"),
        ("a: &a {b: *a}", "levels deep"),
        (BOMB, "more than 20000 values"),
        (MERGES, "more than 20000 values"),
        (WIDE, "more than 20000 values"),
        (LONG, "bytes"),
        (f"a: &a {'9' * 4000}\nb: [{', '.join(['*a'] * 9000)}]", "bytes"),
        (f"a: [{', '.join(['&a {? ' + 'x' * 60_000 + ' : 1}'] + ['*a'] * 9000)}]", "bytes"),
        ("a: &a {<<: *a}\nb: {<<: 7}", "only mappings can be merged"),
        ("a: [" + "1," * 30_000 + "]", "more than 20000 values"),
        ("a: " + "x" * MOST_BYTES, "bytes"),
    ],
    ids=lambda value: value[:20].replace("\x00", "NUL").encode("ascii", "replace").decode(),
)
def test_what_cannot_be_an_environment_is_said(text: str, words: str):
    started = time.process_time()
    with pytest.raises(InvalidYaml, match=words):
        read_runtime_env(text)
    assert time.process_time() - started < 2, "the operator does nothing else meanwhile"


def test_what_is_wrong_is_said_without_what_may_be_secret():
    for text in ("a: !!int secret", "password: secret: secret", "a: !!float secret"):
        with pytest.raises(InvalidYaml) as caught:
            read_runtime_env(text)
        assert "secret" not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text(alphabet="ab:-?[]{}&*!|>'\"%@,# \n\t0123.eE~<", max_size=40))
def test_any_text_is_an_environment_or_is_said_not_to_be(text: str):
    try:
        value = read_runtime_env(text)
    except InvalidYaml:
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value
