"""The manual's table of reasons is the code's, and the code knows no reason besides."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from controller.ray.api.validation.cluster import INVALID_SPEC_REASON
from controller.ray.diagnosis.reasons import REASONS, Severity
from controller.runtime.reconcile.executor import FAILED_READ

MANUAL = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
PROSPECT = {
    Severity.ACTION_REQUIRED: "needs help",
    Severity.TRANSIENT: "may pass",
    Severity.IN_PROGRESS: "takes time",
}


def test_the_manual_has_the_table_of_reasons():
    wanted = [
        f"| `{reason.name}` | {PROSPECT[reason.severity]} | {reason.meaning} | {reason.remedy} |"
        for reason in REASONS
    ]
    lines = MANUAL.read_text().splitlines()
    header = "| Reason of `Ready` | Without action | What it means | What to do |"
    rows = takewhile(lambda line: line.startswith("|"), lines[lines.index(header) + 2 :])
    assert list(rows) == wanted


def test_reasons_from_outside_of_the_table_are_in_it():
    names = {reason.name for reason in REASONS}
    assert {FAILED_READ, INVALID_SPEC_REASON} < names


def test_every_reason_is_a_sentence_and_says_what_to_do():
    for reason in REASONS:
        assert reason.meaning.endswith("."), reason.name
        assert reason.remedy.endswith("."), reason.name
        assert "|" not in reason.meaning + reason.remedy, reason.name
