"""Which of several real API servers the tests of this process run on."""

from __future__ import annotations

import os

KUBECONFIGS = "MANTA_TEST_KUBECONFIG"
"""The variable with one path for each process that runs tests, separated as those in `PATH`."""


def own_kubeconfig() -> str:
    """The kubeconfig of this process's own server; empty if tests run on the embedded one."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    choices = os.environ.get(KUBECONFIGS, "").split(os.pathsep)
    return choices[number % len(choices)]
