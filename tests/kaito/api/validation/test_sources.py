"""Addresses, images and options that users give."""

from __future__ import annotations

import time

import pytest

from controller.kaito.api.config_maps import (
    inference_config_errors,
    longest_context,
    missing_config_error,
    training_config_errors,
)
from controller.kaito.api.fields import image_problem, message_of, url_problem
from controller.kaito.presets.models import find_model
from controller.kaito.workloads.tuning import results_folder

LOCAL = "data source URL must not target a local or metadata endpoint"
INTERNAL = "data source URL must not target a loopback, private, or link-local address"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://example.com/a?b", ""),
        ("HTTP://example.com", ""),
        ("http://8.8.8.8/data", ""),
        ("example.com/data", "invalid data source URL"),
        ("https:///data", "invalid data source URL"),
        ("http://[::1", "invalid data source URL"),
        ("ftp://example.com/data", "data source URL must use HTTP or HTTPS"),
        ("http://localhost:80/", LOCAL),
        ("http://a.localhost/", LOCAL),
        ("http://METADATA.google.internal/", LOCAL),
        ("http://127.0.0.1/", INTERNAL),
        ("http://10.1.2.3/", INTERNAL),
        ("http://169.254.169.254/latest", INTERNAL),
        ("http://[::1]/", INTERNAL),
        ("http://[::ffff:10.0.0.1]/", INTERNAL),
        ("http://[fe80::1%25eth0]/", INTERNAL),
    ],
)
def test_data_comes_from_public_addresses_only(url: str, problem: str):
    assert url_problem(url) == problem


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("ubuntu", ""),
        ("a/b:1.0", ""),
        ("registry.example.com:5000/a/b@sha256:" + "a" * 64, ""),
        ("localhost/a", ""),
        ("a/B", "invalid reference format: repository name (a/B) must be lowercase"),
        ("Registry/a", ""),
        ("a b", "invalid reference format"),
        ("a:", "invalid reference format"),
        (
            "a" * 64,
            f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings",
        ),
        ("/".join(["abc"] * 70), "repository name must not be more than 255 total characters"),
        ("x" * 2000, "invalid reference format"),
    ],
)
def test_images_are_references_as_docker_reads_them(image: str, problem: str):
    assert image_problem(image) == problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "missing field(s): inference_config.yaml in ConfigMap"),
        ("", ""),
        ("vllm:\n  max-model-len: 4096\n  swap-space: 4\n", ""),
        ("vllm: [1]", "Failed to parse inference_config.yaml: "),
        ("vllm: {a: [1]}", "Failed to parse inference_config.yaml: "),
        ("a: b: c", "Failed to parse inference_config.yaml: it is not YAML: mapping values are"),
        ("[1]", "Failed to parse inference_config.yaml: it must be a mapping"),
        (
            "vllm: {max-model-len: 20000}",
            (
                "invalid value: max-model-len 20000 exceeds model's maximum supported context "
                "window 16384 (ModelTokenLimit): max-model-len"
            ),
        ),
        (
            "vllm: {max-model-len: auto}",
            (
                'invalid value: max-model-len must be an integer: strconv.Atoi: parsing "auto": '
                "invalid syntax: max-model-len"
            ),
        ),
        (
            "vllm: {max-model-len: 4_096}",
            (
                'invalid value: max-model-len must be an integer: strconv.Atoi: parsing "4_096": '
                "invalid syntax: max-model-len"
            ),
        ),
    ],
)
def test_the_options_of_a_model_server(text: str | None, words: str):
    data = {} if text is None else {"inference_config.yaml": text}
    message = message_of(inference_config_errors(data, find_model("phi-4")))
    assert message.startswith(words)
    assert bool(message) is bool(words)


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("vllm: {max-model-len: 4096}", 4096),
        ('vllm: {max-model-len: "4096 "}', 4096),
        ("vllm: {max-model-len: auto}", None),
        ("vllm: {max-model-len: 0}", None),
        ("vllm: {max-model-len: 0x800}", None),
        ("vllm: {max-model-len: 4_096}", None),
        ("vllm: {max-model-len: ~}", None),
        ("vllm: {max-model-len: 4096}\n---\nvllm: {max-model-len: 8192}", 4096),
        ("vllm: {}", None),
        ("max-model-len: 4096", None),
        ("[", None),
        ("", None),
    ],
)
def test_the_context_that_the_options_ask_for(text: str, context: int | None):
    assert longest_context({"inference_config.yaml": text}) == context


def doubled(first: str, how: str) -> str:
    """YAML of few lines, the last value of which is 2 to the power of 40 times as large."""
    lines = [f"m0: &m0 {first}", *(f"m{n}: &m{n} {how}".replace("?", f"*m{n - 1}") for n in ROUNDS)]
    return "\n".join(lines)


ROUNDS = range(1, 41)
MERGES = doubled("{a: 1}", "{<<: [?, ?]}")
REPEATS = doubled("[a]", "[?, ?]")
ODD = [
    "vllm: {max-model-len: !!int ''}",
    "vllm: {max-model-len: !!bool x}",
    "vllm: {max-model-len: !!timestamp x}",
    f"vllm: {{max-model-len: '{'9' * 5000}'}}",
    f"vllm: {{max-model-len: {'9' * 5000}}}",
    f"vllm: {{max-model-len: '{'9' * 400}'}}",
    f"{MERGES}\nvllm: *m40",
    f"{REPEATS}\nvllm: {{max-model-len: *m40}}",
    "\n".join(f"k{n}: v" for n in range(80_000)),
    f"vllm: {{max-model-len: '{'x' * 900_000}'}}",
    f"vllm: {'[' * 60_000}",
    "vllm: {max-model-len: \0}",
    "vllm: &a {max-model-len: *a}",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_whatever_a_config_map_says_is_read_or_refused_in_no_time(text: str):
    began = time.process_time()
    data = {"inference_config.yaml": text, "training_config.yaml": text}
    assert longest_context(data) is None
    assert list(inference_config_errors(data, find_model("phi-4")))
    assert list(training_config_errors("c", "n", data, "lora"))
    assert results_folder(data) == "/mnt/output"
    assert time.process_time() - began < 10, "no work that grows with what aliases name"


def options(sections: str) -> dict[str, str]:
    return {"training_config.yaml": f"training_config: {sections}"}


@pytest.mark.parametrize(
    ("data", "method", "words"),
    [
        (options("{LoraConfig: {r: 8}}"), "lora", ""),
        (options("{QuantizationConfig: {load_in_4bit: true}}"), "qlora", ""),
        ({}, "lora", "missing field(s): training_config.yaml in ConfigMap"),
        ({"training_config.yaml": "a: b: c"}, "lora", "invalid value: it is not YAML: mapp"),
        (
            options("[]"),
            "lora",
            "invalid value: Expected 'training_config' key to contain a map: training_config.yaml",
        ),
        (options("{Other: {}}"), "lora", "invalid value: Unrecognized section: Other: training_c"),
        (options("{1: {}}"), "lora", "invalid value: Unrecognized section: 1: training_config.ya"),
        (
            options("{QuantizationConfig: {load_in_4bit: true, load_in_8bit: true}}"),
            "qlora",
            "Cannot set both 'load_in_4bit' and 'load_in_8bit' to true in ConfigMap 'c': ",
        ),
        (
            options("{QuantizationConfig: {load_in_8bit: true}}"),
            "lora",
            "For method 'lora', 'load_in_4bit' or 'load_in_8bit' in ConfigMap 'c' must not be",
        ),
        (
            options("{QuantizationConfig: {load_in_8bit: true}}"),
            "LoRA",
            "For method 'lora', 'load_in_4bit' or 'load_in_8bit' in ConfigMap 'c' must not be",
        ),
        (
            options("{}"),
            "qlora",
            (
                "missing field(s): For method 'qlora', either 'load_in_4bit' or 'load_in_8bit' "
                "must be true in ConfigMap 'c', QuantizationConfig"
            ),
        ),
        (
            options("{QuantizationConfig: {load_in_8bit: 1}}"),
            "lora",
            "invalid value: value must be either nil or a boolean, got type int: load_in_8bit",
        ),
        (
            options("{QuantizationConfig: {load_in_4bit: 'true'}}"),
            "lora",
            "invalid value: value must be either nil or a boolean, got type string: load_in_4bit",
        ),
        (options("{TrainingArguments: {output_dir: results}}"), "lora", ""),
        (options("{TrainingArguments: {output_dir: /mnt/results}}"), "lora", ""),
        (
            options("{TrainingArguments: {output_dir: ../etc}}"),
            "lora",
            "invalid value: Invalid output_dir specified: '../etc', must be a directory: ",
        ),
        (options("{TrainingArguments: {output_dir: .}}"), "lora", "invalid value: Invalid output"),
        (
            options("{TrainingArguments: {output_dir: 1}}"),
            "lora",
            "invalid value: output_dir is not a string in ConfigMap 'c' in namespace 'n'",
        ),
    ],
)
def test_the_options_of_a_tuning(data: dict[str, str], method: str, words: str):
    message = message_of(training_config_errors("c", "n", data, method))
    assert message.startswith(words)
    assert bool(message) is bool(words)


def test_a_config_map_that_does_not_exist_is_named():
    assert str(missing_config_error("c", "n")) == (
        "ConfigMap 'c' specified in 'config' not found in namespace 'n': config"
    )
