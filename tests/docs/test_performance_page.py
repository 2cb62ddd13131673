"""The page of performance has the figures that the benchmark prints, with their ratios."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.side_by_side import LABELS
from tests.docs.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "performance.md").read_text()
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


STACKS = """\
main (a.py:1);work (controller/ray/plan.py:7);work (controller/ray/plan.py:8);leaf (b.py:1) 60
main (a.py:1);rest (aiohttp/client.py:3) 39
main (a.py:1);<rare> (informers/decoding/codec.py:3) 1
"""


def test_a_flame_graph_has_a_box_for_each_function_as_wide_as_its_share(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "stacks").write_text(STACKS)
    script = tmp_path / "scripts" / "draw"
    script.write_text((ROOT / "scripts" / "draw-flame-graph").read_text())
    subprocess.run([sys.executable, str(script), str(tmp_path / "stacks")], check=True)
    drawn = (tmp_path / "docs" / "flame-graph.svg").read_text()
    widths = {
        name: float(width) for name, width in re.findall(r'<title>(\S+) .*?width="([\d.]+)"', drawn)
    }
    assert widths == {
        "main": 1200.0,
        "work": 720.0,
        "leaf": 720.0,
        "rest": 468.0,
        "&lt;rare&gt;": 12.0,
    }
    assert '(controller/ray/plan.py), 60.0 %</title><rect x="0.0" y="17"' in drawn
    assert "#f4a582" in drawn


def test_the_flame_graph_names_no_file_of_a_machine():
    assert not re.search(r"\(/", (ROOT / "docs" / "flame-graph.svg").read_text())
