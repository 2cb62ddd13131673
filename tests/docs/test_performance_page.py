"""The page of performance has the figures that the benchmark prints, with their ratios."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

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


STACKS = """\
main (a.py:1);work (controller/ray/plan.py:7);work (controller/ray/plan.py:8);leaf (b.py:1) 60
main (a.py:1);rest (aiohttp/client.py:3) 39
main (a.py:1);<rare> (informers/codec.py:3) 1
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


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.skipif(
    not shutil.which("py-spy") or os.geteuid() != 0,
    reason="SKIP: no py-spy on this machine, or nobody who may look into processes",
)
def test_a_flame_graph_is_drawn_from_what_py_spy_has_recorded(tmp_path: Path):
    command = command_with("py-spy")
    with subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"]) as busy:
        try:
            given = [str(busy.pid) if word == "PID" else word for word in command]
            with subprocess.Popen(given, cwd=tmp_path) as recording:
                time.sleep(3)
                recording.send_signal(signal.SIGINT)
            assert recording.returncode == 0
        finally:
            busy.kill()
    recorded = (tmp_path / "stacks").read_text()
    assert re.search(r"^<module> \(<string>:1\).* \d+$", recorded, re.MULTILINE)
