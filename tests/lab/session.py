"""Whether the tests of this process run on a real control plane, and on which."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lab.programs import why_missing

PLANES = "MANTA_TEST_PLANES"
"""The variable with the folder in which each process that runs tests has a control plane."""


def own_kubeconfig() -> str:
    """The kubeconfig of this process's control plane; empty if tests run on the embedded one."""
    planes = os.environ.get(PLANES)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return str(Path(planes, worker, "kubeconfig")) if planes else ""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test where these programs of the lab are not built."""
    reason = why_missing(*programs)
    return pytest.mark.skipif(bool(reason), reason=f"SKIP: {reason}")
