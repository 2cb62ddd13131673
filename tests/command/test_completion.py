"""`manta completion`: what the shells offer, asked of the shells themselves."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from controller.__main__ import main

ASK = {
    # the words before the last one are complete, as typed; the last one is being typed
    "bash": "source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _manta; "
    'printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": "compdef() {{ : }}; source {script}; words=({words}); CURRENT={last}+1; "
    "_describe() {{ print -l -- ${{(M)found:#${{words[CURRENT]}}*}} }}; _manta",
    "fish": "source {script}; complete -C {line}",
}


@pytest.fixture(params=sorted(ASK))
def shell(request: pytest.FixtureRequest) -> str:
    if not shutil.which(request.param):
        pytest.skip(f"SKIPPED, NOT PASSED: no {request.param} on this machine")
    return request.param


@pytest.fixture
def script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    file = tmp_path / "script"
    file.write_text(capsys.readouterr().out)
    return file


def offered(shell: str, script: Path, *typed: str) -> set[str]:
    """What the shell offers for the last word of `manta TYPED`."""
    words = ("manta", *typed)
    question = ASK[shell].format(
        script=script, words=shlex.join(words), last=len(typed), line=shlex.quote(" ".join(words))
    )
    plain = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *plain, "-c", question], capture_output=True, text=True, check=False, timeout=60
    )
    lines = (line.partition("\t")[0].partition(":")[0] for line in done.stdout.splitlines())
    return {line for line in lines if line}


def test_commands_options_and_values_are_offered(shell: str, script: Path):
    assert offered(shell, script, "sta") == {"status"}
    assert {"run", "diagnose", "hand-back", "completion"} <= offered(shell, script, "")
    assert offered(shell, script, "status", "--all") == {"--all-namespaces"}
    assert offered(shell, script, "plan", "-o", "") == {"text", "json"}
    assert offered(shell, script, "run", "--log-level", "w") == {"warning"}


def test_kinds_examples_and_the_actions_of_a_rollout_are_offered(shell: str, script: Path):
    assert "rayjob" in offered(shell, script, "why", "ray")
    assert {"raycluster", "raycluster-idle"} <= offered(shell, script, "example", "rayclu")
    assert {"pause", "undo"} <= offered(shell, script, "rollout", "")
    assert offered(shell, script, "rollout", "undo", "--to-rev") == {"--to-revision"}
