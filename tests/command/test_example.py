"""`manta example` lists and prints the manifests of examples/; what a demo says to try next."""

from pathlib import Path

import pytest

from controller.__main__ import main
from controller.command.cli.development import as_typed

FOLDER = Path(__file__).parents[2] / "examples"


def test_without_a_name_each_example_is_listed_with_a_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["example"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed.keys() == {file.stem for file in FOLDER.glob("*.yaml")}
    assert listed["raycluster"] == "A small Ray cluster: one head, two workers"


def test_a_name_prints_the_manifest(capsys: pytest.CaptureFixture[str]):
    assert main(["example", "rayjob"]) == 0
    assert capsys.readouterr().out == (FOLDER / "rayjob.yaml").read_text()


@pytest.mark.parametrize(
    ("folders", "expected"), [("/nowhere", ".venv/bin/manta"), (".venv/bin", "manta")]
)
def test_what_to_try_next_can_be_typed_as_it_stands(
    folders: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / ".venv" / "bin" / "manta"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", folders)
    monkeypatch.setattr("sys.argv", [".venv/bin/manta", "demo"])
    assert as_typed() == expected
