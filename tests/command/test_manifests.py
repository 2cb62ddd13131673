"""Manifests: files, folders, standard input, what is wrong in them, and `manta example`."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from controller.__main__ import main
from controller.command.cli.development import as_typed
from controller.command.manifests import STANDARD_INPUT, load
from controller.kube.errors import ConfigurationError

ONE = "apiVersion: v1\nkind: One\nmetadata: {name: a}\n"
EXAMPLE = Path(__file__).parents[2] / "examples" / "raycluster.yaml"


class Input:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", Input(f"{ONE}---\n{ONE}".encode()))
    assert [each["kind"] for each in load(STANDARD_INPUT)] == ["One", "One"]


def test_what_is_wrong_on_standard_input_is_said_of_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", Input(b"{"))
    with pytest.raises(ConfigurationError, match="standard input is not YAML"):
        load(STANDARD_INPUT)


def test_a_folder_gives_its_yaml_yml_and_json_files_in_order(tmp_path: Path):
    for name in ("b.yml", "a.yaml", "c.json"):
        (tmp_path / name).write_text(f'{{"kind": "{name}"}}')
    (tmp_path / "d.txt").write_text("{")
    assert [each["kind"] for each in load(tmp_path)] == ["a.yaml", "b.yml", "c.json"]


def test_of_a_folder_all_bad_files_are_named(tmp_path: Path):
    (tmp_path / "good.yaml").write_text(ONE)
    (tmp_path / "bad.yaml").write_text("{")
    (tmp_path / "text.yaml").write_text("just words")
    (tmp_path / "deep.yaml").write_text("[" * 3_000_000)
    (tmp_path / "circle.yaml").write_text("kind: A\nmetadata: &a {annotations: *a}")
    (tmp_path / "key.yaml").write_text("kind: A\nmetadata: {annotations: {null: a}}")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path)
    for name in ("bad", "text", "deep", "circle", "key", "binary", "folder"):
        assert f"{name}.yaml" in str(raised.value)
    assert "good.yaml" not in str(raised.value)


def test_values_are_read_as_kubectl_reads_them(tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_text("kind: A\nmetadata: {name: 12:30}\nspec: {true: 2026-01-01, 2: 1e3}")
    (read,) = load(file)
    assert (read["metadata"], read["spec"]) == (
        {"name": "12:30"},
        {"true": "2026-01-01", "2": 1000},
    )


def test_lists_are_taken_apart_and_empty_documents_skipped(tmp_path: Path):
    file = tmp_path / "list.yaml"
    file.write_text("---\n---\nkind: List\nitems: [{kind: A}, {kind: List, items: [{kind: B}]}]\n")
    assert [each["kind"] for each in load(file)] == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a document that is no object"),
        ("apiVersion: ray.io/v1\nmetadata: {name: a}", "an object without a kind"),
        ("kind: [A]", "an object without a kind"),
        ("kind: A\nmetadata: []", ""),
        ("kind: A\nmetadata: [1]", "metadata of a A must be an object"),
        ("kind: A\nmetadata: {name: 7}", "metadata.name of a A must be text, not 7"),
        ("kind: A\nmetadata: {namespace: [a]}", "metadata.namespace of a A must be text"),
        ("kind: List\nitems: 7", "items of a List must be a list"),
        ("kind: List\nitems: [7]", "a document that is no object: 7"),
    ],
)
def test_what_is_no_object_is_said(tmp_path: Path, text: str, words: str):
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    if not words:
        assert load(file)
        return
    with pytest.raises(ConfigurationError, match=f"odd.yaml.*{words}"):
        load(file)


def test_a_reader_that_has_seen_enough_is_no_error(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert main(["plan", "--offline", "-f", str(EXAMPLE)]) == 0


def test_an_object_of_another_group_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "other.yaml"
    file.write_text("apiVersion: example.com/v1\nkind: RayCluster\nmetadata: {name: a}\n")
    assert main(["plan", "--offline", "-f", str(file)]) == 2
    assert "left out RayCluster a" in capsys.readouterr().err


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
