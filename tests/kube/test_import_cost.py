"""Types are cheap to import, which keeps start-up fast and memory small."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXPENSIVE = ("aiohttp", "kubernetes_asyncio", "prometheus_client", "yaml")


def modules_after(program: str) -> set[str]:
    """Return the modules that are loaded once the program has run."""
    text = f"import sys; {program}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", text], check=True, capture_output=True, text=True
    )
    return set(result.stdout.split())


def loaded_by(*modules: str) -> set[str]:
    """Return the expensive libraries that importing `modules` loads."""
    return set(EXPENSIVE) & modules_after(f"import {', '.join(modules)}")


@pytest.mark.real_time
def test_types_and_the_client_load_no_expensive_library():
    names = ("client", "credentials", "errors", "objects", "resources", "source", "transport")
    assert loaded_by(*(f"controller.kube.{name}" for name in names)) == set()


@pytest.mark.real_time
def test_finding_credentials_does_not_load_kubernetes_asyncio():
    assert "kubernetes_asyncio" not in loaded_by("controller.kube.load")


@pytest.mark.real_time
def test_workspaces_are_loaded_only_where_they_are_served():
    kinds = "kinds_of(KindSettings.from_environment(), None)"
    found = modules_after(f"from controller.command.kinds import *; {kinds}")
    assert not [name for name in found if name.startswith("controller.kaito")]
