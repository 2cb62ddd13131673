"""The script by which a worker waits for its head, run by a real shell with a false Ray."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.ray.cluster.support import cluster, manifest, plan, reads

RAY = """\
#!/bin/bash
echo "$@" >> asked
echo complaint >&2
[ "$(wc -l < asked)" -ge 3 ]
"""
SLEEP = """\
#!/bin/bash
echo "$@" >> slept
"""


def waiting_command() -> list[str]:
    made = plan(reads(cluster(manifest())))
    bodies = [dict(write.body) for stage in made.stages for write in stage]
    worker = next(b for b in bodies if b["metadata"]["labels"].get("ray.io/node-type") == "worker")
    (container,) = worker["spec"]["initContainers"]
    return [*container["command"], *container["args"]]


@pytest.mark.real_time
@pytest.mark.parametrize(("seconds", "complaints"), [(0, 0), (121, 3)])
def test_a_worker_asks_until_the_head_answers_and_complains_only_after_two_minutes(
    tmp_path: Path, seconds: int, complaints: int
):
    for name, text in (("ray", RAY), ("sleep", SLEEP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    shell, *options, script = waiting_command()
    done = subprocess.run(
        [shell, *options, f"SECONDS={seconds}\n{script}"],
        cwd=tmp_path,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    address = "example-head-svc.default.svc.cluster.local:6379"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [f"health-check --address {address}"] * 3
    assert (tmp_path / "slept").read_text().splitlines() == ["5", "5"]
    assert done.stderr.count("complaint") == complaints
    assert done.stdout.splitlines()[-1] == f"The GCS at {address} is ready."
