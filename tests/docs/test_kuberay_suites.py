"""`scripts/kuberay-suites` leaves out just the tests that the page lists, each with a reason."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from tests.docs.tree import ROOT

SCRIPT = ROOT / "scripts" / "kuberay-suites"
PAGE = (ROOT / "docs" / "compatibility.md").read_text()


def script() -> Any:
    loader = SourceFileLoader("kuberay_suites", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look for their annotations
    loader.exec_module(module)
    return module


def rows() -> list[list[str]]:
    """The rows of the table of exceptions, without its head."""
    section = PAGE.partition("## KubeRay's own end-to-end tests\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_row_of_the_page_is_a_test_that_is_left_out_with_its_reason():
    listed = script().listed()
    assert listed
    assert [[f"`{name}`", why] for name, why in listed.items()] == rows()
    assert all(listed.values())


def test_a_listed_subtest_is_matched_alone():
    pattern = script().go_pattern("TestRayJob/A_b.c")
    assert pattern == r"^TestRayJob$/^A_b\.c$"


def test_without_the_suites_it_says_so_and_runs_nothing(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "it has no ray-operator/test" in done.stderr
    assert "Traceback" not in done.stderr


STOPPED = """
import sys
from contextlib import contextmanager
from tests.docs.test_kuberay_suites import script

@contextmanager
def cluster(*_):
    try:
        yield "kubeconfig"
    finally:
        print("cluster ended", flush=True)

def build(folder, suite, work, archives):
    (work / suite).mkdir()
    program = work / f"{suite}.test"
    program.write_text("#!/bin/sh\\necho $$\\nexec sleep 300\\n")
    program.chmod(0o755)

suites = script()
suites.shutil.which = lambda name: name
suites.build, suites.manta_dev = build, cluster
suites.main()
"""


@pytest.mark.real_time
def test_when_it_is_stopped_it_ends_the_suite_and_the_cluster(tmp_path: Path):
    (tmp_path / "ray-operator" / "test").mkdir(parents=True)
    arguments = shlex.split(f"{tmp_path} --suite e2e --logs {tmp_path}")
    log = tmp_path / "e2e.log"
    log.touch()
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as stopped:
        while not (started := log.read_text()):
            assert stopped.poll() is None
            time.sleep(0.05)
        stopped.send_signal(signal.SIGTERM)
        assert stopped.stdout is not None
        assert stopped.stdout.read() == "cluster ended\n"
    assert stopped.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(started), 0)
