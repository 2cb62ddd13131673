"""The page of performance has the figures that the benchmark prints, with their ratios."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from benchmarks.side_by_side import LABELS
from tests.docs.tree import ROOT, commands_of
from tests.lab.session import needs

PATH = ROOT / "docs" / "performance.md"
PAGE = PATH.read_text()
ROWS = {
    cells[0]: cells[1:4]
    for line in PAGE.split("<!-- side by side -->")[1].split("<!-- end -->")[0].splitlines()
    if re.search(r"\d", line)
    for cells in [[cell.strip() for cell in line.strip("| ").split("|")]]
}


def test_the_table_has_a_row_for_each_figure():
    assert list(ROWS) == list(LABELS.values())


@pytest.mark.parametrize("label", LABELS.values())
def test_a_ratio_is_that_of_the_figures_beside_it(label: str):
    ours, theirs, ratio = (float(cell) for cell in ROWS[label])
    assert ratio == pytest.approx(ours / theirs, rel=0.3 if theirs < 0.1 else 0.02)


def command_with(word: str) -> list[str]:
    """The words of the one command of the page with this word, without variables before it."""
    [command] = [each for each in commands_of(PATH) if word in each]
    return [word for word in shlex.split(command) if not re.match("[A-Z_]+=", word)]


@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.real_time
@pytest.mark.timeout(400)
@needs("etcd", "kube-apiserver")
def test_the_benchmark_of_the_page_prints_all_figures_of_three_clusters():
    _, *arguments, number = command_with("benchmarks.side_by_side")
    assert number.isdecimal()
    command = [sys.executable, *arguments, "3"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names, *rows = printed.splitlines()
    assert names.split()[0] == "Manta"
    assert [row[:34].strip() for row in rows] == list(LABELS.values())
    assert all(float(row[34:].split()[0]) > 0 for row in rows)
