"""`manta example` lists and prints the manifests of examples/."""

from pathlib import Path

import pytest

from controller.__main__ import main

FOLDER = Path(__file__).parents[2] / "examples"


def test_without_a_name_each_example_is_listed_with_a_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["example"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed.keys() == {file.stem for file in FOLDER.glob("*.yaml")}
    assert listed["raycluster"] == "A small Ray cluster: one head, two workers"


def test_a_name_prints_the_manifest(capsys: pytest.CaptureFixture[str]):
    assert main(["example", "rayjob"]) == 0
    assert capsys.readouterr().out == (FOLDER / "rayjob.yaml").read_text()
