"""YAML of users: each text means what it means to the libraries of KubeRay and Kaito.

`yaml_reference/main.go` has recorded their answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, cast

import pytest

from controller.apimachinery.user_yaml import (
    InvalidYaml,
    YamlLimits,
    read_yaml_documents,
    read_yaml_mapping,
)
from controller.kaito.api.config_maps import INFERENCE_KEY, inference_config_errors

ANSWERS: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "yaml_reference" / "answers.json").read_text()
)
REFUSED: Final = {each["text"] for each in ANSWERS if "command" not in each or "body" not in each}
"""Texts that are no mapping for JSON. Kaito reads some of them, Manta none."""
LIMITS: Final = YamlLimits(64 * 1024)


def canonical(value: Any) -> str:
    """Text that tells 1, 1.0, true and "1" apart, and no order of keys."""
    return json.dumps(value, sort_keys=True)


def test_the_table_has_texts_that_are_read_and_texts_that_are_refused():
    assert len(ANSWERS) > 250
    assert 60 < len(REFUSED) < 100


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: ascii(answer["text"][:40]))
def test_a_text_is_read_or_refused_as_kuberay_does(answer: dict[str, Any]):
    text = answer["text"]
    if text in REFUSED:
        with pytest.raises(InvalidYaml):
            read_yaml_mapping(text, LIMITS)
    else:
        wanted = answer["command"]
        assert canonical(read_yaml_mapping(text, LIMITS)) == canonical(wanted or dict[str, Any]())


@pytest.mark.parametrize(
    "answer",
    [each for each in ANSWERS if each["text"] not in REFUSED],
    ids=lambda answer: ascii(answer["text"][:40]),
)
def test_options_of_a_model_server_are_the_words_that_kaito_reads(answer: dict[str, Any]):
    errors = list(inference_config_errors({INFERENCE_KEY: answer["text"]}, None))
    assert bool(errors) is ("words" not in answer)
    if not errors:
        read = read_yaml_mapping(answer["text"], LIMITS, scalars_as_text=True)
        words = cast("dict[str, str | None]", read.get("vllm") or {})
        wanted = cast("dict[str, str]", answer["words"] or {})
        assert {key: value or "" for key, value in words.items()} == wanted


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a: {b:}", None),  # the reference: a key `b:`
        ("a: [b:, c]", None),  # the reference: text `b:`
        ("a: {b?: 1}", {"a": {"b?": 1}}),  # the reference: an error
        ('a: "\\/"', {"a": "/"}),  # the reference: an error, although JSON has it
    ],
)
def test_what_libyaml_reads_otherwise_is_read_as_there_and_never_guessed(text: str, read: Any):
    if read is None:
        with pytest.raises(InvalidYaml, match="is not YAML: found unexpected ':' in line 1"):
            read_yaml_mapping(text, LIMITS)
    else:
        assert read_yaml_mapping(text, LIMITS) == read


def test_a_manifest_has_all_of_its_documents():
    text = b"a: 1\n---\n# nothing\n---\n[2]\n...\n---\nb: &x 3\n"
    assert read_yaml_documents(text, LIMITS) == [{"a": 1}, None, [2], {"b": 3}]


def test_an_anchor_ends_with_its_document():
    with pytest.raises(InvalidYaml, match="anchor 'x' is not defined before its use in line 3"):
        read_yaml_documents("a: &x 1\n---\nb: *x\n", LIMITS)


def test_an_anchor_inside_of_its_namesake_is_the_later_one():
    assert read_yaml_mapping("a: &x [&x 1, *x]\nb: *x\n", LIMITS) == {"a": [1, 1], "b": 1}


def test_values_that_an_anchor_repeats_are_copies():
    read = read_yaml_mapping("a: &a {b: [1]}\nc: *a\nd: {<<: *a}", LIMITS)
    read["a"]["b"].append(2)
    assert (read["c"], read["d"]) == ({"b": [1]}, {"b": [1]})


@pytest.mark.parametrize("content", [b"a: \xff\n", b"a: \xc3(\n", b"\xff\xfea"])
def test_bytes_that_are_no_text_are_refused(content: bytes):
    with pytest.raises(InvalidYaml, match="is not YAML: "):
        read_yaml_documents(content, LIMITS)


def test_text_in_utf_16_is_read_by_its_mark():
    assert read_yaml_documents("\ufeffa: é".encode("utf-16-le"), LIMITS) == [{"a": "é"}]
