"""Types are cheap to import, which keeps start-up fast and memory small."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXPENSIVE = ("aiohttp", "kubernetes_asyncio", "prometheus_client", "yaml")


def loaded_by(*modules: str) -> set[str]:
    """Return the expensive libraries that importing `modules` loads."""
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(EXPENSIVE) & set(result.stdout.split())


@pytest.mark.real_time
def test_types_and_the_client_load_no_expensive_library():
    names = ("client", "credentials", "errors", "objects", "resources", "source", "transport")
    assert loaded_by(*(f"controller.kube.{name}" for name in names)) == set()


@pytest.mark.real_time
def test_finding_credentials_does_not_load_kubernetes_asyncio():
    assert "kubernetes_asyncio" not in loaded_by("controller.kube.load")
