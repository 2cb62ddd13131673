"""Trying out whether pods can be kept apart."""

from __future__ import annotations

import tempfile
import venv

import pytest

from devcluster.processes.isolation import self_test
from tests.devcluster.processes.machines import needs_compiler, needs_namespaces, opened

pytestmark = pytest.mark.real_time


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("namespaces", marks=needs_namespaces),
        pytest.param("shim", marks=needs_compiler),
    ],
)
async def test_an_interpreter_may_lie_in_a_folder_that_containers_have_for_themselves(mode: str):
    with tempfile.TemporaryDirectory(prefix="manta-test-", dir="/tmp") as folder:
        venv.create(folder, symlinks=True)
        async with opened(mode) as isolation:
            await self_test(isolation, f"{folder}/bin/python")
