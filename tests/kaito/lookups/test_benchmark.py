"""The measurement in the log of a model server."""

from __future__ import annotations

import pytest

from controller.kaito.lookups.background import LookupFailed
from controller.kaito.lookups.benchmark import Measurement, measurement


def result(tokens: str, when: str = "2026-01-01T00:00:00Z") -> str:
    numbers = f'{{"vllm_total_tpm":{tokens},"ttft_avg_ms":100,"tpot_avg_ms":50}}'
    return f"KAITO_BENCHMARK_RESULT {when} {numbers}\n"


CONFIG = (
    'KAITO_BENCHMARK_CONFIG 2026-01-01T00:00:00Z {"duration_sec":60,"input_tokens":2048,'
    '"output_tokens":256,"max_concurrency":32}\n'
)


@pytest.mark.parametrize(
    ("log", "value"),
    [
        (f"vllm starts\n{result('12345.67')}", "12345.67"),
        (f"{result('-1')}{result('99999')}ready\n", "99999"),
        (f"INFO: {result('500.0')}", "500"),
        (result("1000000"), "1000000"),
        (result("1e21"), "1" + "0" * 21),
        (result("0.1"), "0.1"),
        (f"{result('500')}KAITO_BENCHMARK_RESULT\nKAITO_BENCHMARK_RESULT 2026\n", "500"),
    ],
)
def test_the_last_result_counts_and_is_written_as_go_does(log: str, value: str):
    assert measurement(log, "phi-0") == Measurement(value)


def test_what_was_measured_is_read_too():
    assert measurement(CONFIG + result("5"), "phi-0").config == {
        "durationSec": "60",
        "inputTokens": "2048",
        "outputTokens": "256",
        "maxConcurrency": "32",
    }


@pytest.mark.parametrize("odd", ["[]", '{"duration_sec":"x"}', "{" * 1000])
def test_a_configuration_that_cannot_be_read_is_left_out(odd: str):
    line = f"KAITO_BENCHMARK_CONFIG 2026-01-01T00:00:00Z {odd}\n"
    assert measurement(line + result("5"), "phi-0").config == {}


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("", "there is no KAITO_BENCHMARK_RESULT in the end of its log"),
        ("<html>", "there is no KAITO_BENCHMARK_RESULT in the end of its log"),
        (result("-1"), "its result is -1"),
        (result("0"), "its result is 0"),
        (result("nan"), "cannot be read"),
        (result('"12"'), "cannot be read"),
        (result("9" * 500), "result"),
        (f"KAITO_BENCHMARK_RESULT now {'[' * 100_000}", "cannot be read"),
    ],
)
def test_a_log_without_a_result_is_no_answer_yet(log: str, message: str):
    with pytest.raises(LookupFailed, match=message) as raised:
        measurement(log, "phi-0")
    assert raised.value.reason == "BenchmarkFailed"
    assert len(str(raised.value)) < 300
