"""Options of `manta dev` and `manta demo` that say how pods run."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.__main__ import main


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dev --isolation shim", "--isolation shim: pods are simulated; add --ray"),
        ("dev --image rayproject/ray", "--image rayproject/ray: write NAME=PATH"),
        ("dev --image rayproject/ray=/nowhere", "/nowhere is not a folder"),
        ("demo --image a=/usr", "--image and --isolation are for the kinds whose pods are"),
        ("demo --chart a.svg", "--chart is for --kind rayservice-incremental"),
        ("demo --kind autoscaling --image a=/nowhere", "/nowhere is not a folder"),
        ("demo --kind rayjob --image a=/nowhere", "/nowhere is not a folder"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_helps(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert main(line.split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nothing\n", "holds 0 RayJobs; it must hold one"),
        ("kind: RayJob\n---\nkind: RayJob\n", "holds 2 RayJobs; it must hold one"),
        (
            "kind: RayJob\n---\nkind: Ingress\n",
            "holds a Ingress, and this demo takes RayJobs, ",
        ),
        ("kind: RayJob\n", "holds a RayJob without metadata.name"),
    ],
)
def test_a_demo_of_jobs_takes_one_job_and_what_it_needs(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(text)
    assert main(["demo", "--kind", "rayjob", "-f", str(manifest)]) == 2
    assert words in capsys.readouterr().err
