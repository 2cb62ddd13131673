"""What runs while nodes are drained: manifests for both operators, and the counting program.

The program runs on the head as a driver. It notes in a folder of this machine, which all pods
mount, when it begins, each task and actor that begins, and in the end what became of everything. So
it is also known what was done by a driver that has died.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

NAME: Final = "course"
PROGRAM: Final = "python /home/ray/code/work.py"
WORKERS: Final = 2
GRACE: Final = 60
"""Seconds of `terminationGracePeriodSeconds` of all pods of Ray."""

_IMAGE: Final = "rayproject/ray:2.60.0"
_CODE: Final = "course-code"
_OWN_DRAIN: Final = "30"
"""Seconds for which Ray drains by itself on SIGTERM: its default, not that of `manta dev --ray`."""

_WORK: Final = """
import json, pathlib, time, uuid
import ray

NOTES = pathlib.Path("/home/ray/notes")
STOP = NOTES / "stop"
TASKS, SECONDS = 3, 3.0  # at a time, of each
BLOCKS, SIZE = 10, 200_000  # objects, bytes of each: too large to be kept by the driver


def note(attempt, kind, number=0):
    with (NOTES / "notes").open("a") as file:
        file.write(json.dumps([attempt, kind, number]) + "\\n")


@ray.remote(num_cpus=0.4, max_retries=-1)
def task(attempt, number):
    note(attempt, "task", number)
    time.sleep(SECONDS)
    return number


@ray.remote(num_cpus=0.4, max_retries=-1, scheduling_strategy="SPREAD")
def block(attempt, number):
    note(attempt, "block", number)
    return number, bytes(SIZE)


@ray.remote(num_cpus=0.1, max_restarts=-1, max_task_retries=-1)
class Keeper:
    def __init__(self, attempt):
        note(attempt, "actor")

    def put(self, number):
        return number, [ray.put(bytes(SIZE))]


def lost(refs):
    there, missing = ray.wait(refs, num_returns=len(refs), timeout=30) if refs else ([], [])
    count = len(missing)
    for ref in there:
        try:
            ray.get(ref, timeout=10)
        except ray.exceptions.RayError:
            count += 1
    return count


def main():
    attempt = uuid.uuid4().hex
    ray.init()
    note(attempt, "driver")
    blocks = [block.remote(attempt, number) for number in range(BLOCKS)]
    ray.wait(blocks, num_returns=BLOCKS, fetch_local=False)
    keeper = Keeper.remote(attempt)
    running, ended, kept, begun, slowest = [], [], [], 0, 0.0
    while running or not STOP.exists():
        while len(running) < TASKS and not STOP.exists():
            running.append(task.remote(attempt, begun))
            begun += 1
        began = time.time()
        number, refs = ray.get(keeper.put.remote(len(kept)))
        assert number == len(kept)
        slowest = max(slowest, time.time() - began)
        kept += refs
        done, running = ray.wait(running, timeout=1.0)
        ended += ray.get(done)
    assert sorted(ended) == list(range(begun)), "tasks are missing, or were counted twice"
    for number, ref in enumerate(blocks):
        found, bytes_ = ray.get(ref)
        assert found == number and len(bytes_) == SIZE, "an object is another one"
    result = {"attempt": attempt, "tasks": begun, "blocks": BLOCKS, "slowest_call": slowest}
    result |= {"puts": len(kept), "puts_lost": lost(kept)}
    (NOTES / "result.new").write_text(json.dumps(result))
    (NOTES / "result.new").rename(NOTES / "result")


main()
"""

_SERVE: Final = """
import os
from ray import serve


@serve.deployment(max_ongoing_requests=50)
class Greeter:
    async def __call__(self, request):
        return {"version": "v1", "cluster": os.environ["RAY_CLUSTER_NAME"], "pid": os.getpid()}


greeter = Greeter.bind()
"""

_SERVE_CONFIG: Final = """
applications:
  - name: greeter
    import_path: serving:greeter
    route_prefix: /greet
    deployments:
      - name: Greeter
        num_replicas: 2
        max_replicas_per_node: 1
        ray_actor_options:
          num_cpus: 0.2
"""


class _Result(msgspec.Struct, frozen=True):
    attempt: str
    tasks: int
    blocks: int
    puts: int
    puts_lost: int
    slowest_call: float


class Done(msgspec.Struct, frozen=True):
    """What became of the work.

    Attributes:
        drivers: programs that have begun; more than one if the job had more attempts.
        sums_right: whether one of them has ended and everything was counted once.
        tasks: tasks of that one; 0 if there is none.
        tasks_repeated: executions of tasks beside these.
        objects_computed_again: of tasks, whose copies were lost with a worker.
        actors_restarted: how often an actor began anew.
        objects_put: objects of `ray.put` by an actor.
        objects_put_lost: those of them that could not be had in the end.
        slowest_call: seconds of the slowest call of an actor.
    """

    drivers: int
    sums_right: bool
    tasks: int
    tasks_repeated: int
    objects_computed_again: int
    actors_restarted: int
    objects_put: int
    objects_put_lost: int
    slowest_call: float


class Notes:
    """The folder in which the program notes what it does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def count(self, kind: str) -> int:
        """Number of beginnings of that kind."""
        return sum(each[1] == kind for each in self._all())

    def stop(self) -> None:
        """Ask the program to end."""
        (self.folder / "stop").touch()

    @property
    def has_result(self) -> bool:
        """Whether a program has ended and found everything right."""
        return (self.folder / "result").exists()

    def done(self) -> Done:
        """What became of the work so far."""
        notes = self._all()
        kinds = Counter(kind for _, kind, _ in notes)
        result = None
        if self.has_result:
            result = msgspec.json.decode((self.folder / "result").read_bytes(), type=_Result)
        tasks, blocks = (result.tasks, result.blocks) if result else (0, 0)
        return Done(
            drivers=kinds["driver"],
            sums_right=result is not None,
            tasks=tasks,
            tasks_repeated=kinds["task"] - tasks,
            objects_computed_again=kinds["block"] - blocks,
            actors_restarted=max(kinds["actor"] - kinds["driver"], 0),
            objects_put=result.puts if result else 0,
            objects_put_lost=result.puts_lost if result else 0,
            slowest_call=result.slowest_call if result else 0.0,
        )

    def _all(self) -> list[tuple[str, str, int]]:
        path = self.folder / "notes"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def config_map() -> dict[str, Any]:
    """The programs."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CODE},
        "data": {"work.py": _WORK, "serving.py": _SERVE},
    }


def cluster_spec(notes: Path) -> dict[str, Any]:
    """The specification of a RayCluster; KubeRay's operator ignores what it does not know."""
    head = _template("ray-head", notes, cpu="600m")
    ports = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": 8000}
    head["spec"]["containers"][0]["ports"] = [
        {"name": name, "containerPort": port} for name, port in ports.items()
    ]
    workers = {
        "groupName": "workers",
        "replicas": WORKERS,
        "minReplicas": WORKERS,
        "maxReplicas": WORKERS,
        "rayStartParams": {"num-cpus": "1"},
        "template": _template("ray-worker", notes, cpu="600m"),
    }
    return {
        "rayVersion": "2.60.0",
        "gracefulTerminationOptions": {},
        "disruptionBudgets": {},
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": head},
        "workerGroupSpecs": [workers],
    }


def ray_cluster(notes: Path) -> dict[str, Any]:
    """A RayCluster, for a driver that is submitted to it."""
    return _object("RayCluster", cluster_spec(notes))


def ray_job(notes: Path) -> dict[str, Any]:
    """A RayJob that runs the program, with two more attempts."""
    spec = {"entrypoint": PROGRAM, "backoffLimit": 2, "rayClusterSpec": cluster_spec(notes)}
    return _object("RayJob", spec)


def ray_service(notes: Path) -> dict[str, Any]:
    """A RayService of two replicas on two workers."""
    spec = {
        "serveConfigV2": _SERVE_CONFIG,
        "rayClusterDeletionDelaySeconds": 10,
        "rayClusterConfig": cluster_spec(notes),
    }
    return _object("RayService", spec)


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": NAME}, "spec": spec}


def _template(container: str, notes: Path, *, cpu: str) -> dict[str, Any]:
    resources = {"cpu": cpu, "memory": "1Gi"}
    mounts = {"code": "/home/ray/code", "notes": "/home/ray/notes"}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": GRACE,
        "containers": [
            {
                "name": container,
                "image": _IMAGE,
                "env": [
                    {"name": "PYTHONPATH", "value": mounts["code"]},
                    {"name": "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "value": _OWN_DRAIN},
                ],
                "resources": {"requests": resources, "limits": copy.copy(resources)},
                "volumeMounts": [{"name": name, "mountPath": at} for name, at in mounts.items()],
            }
        ],
        "volumes": [
            {"name": "code", "configMap": {"name": _CODE}},
            {"name": "notes", "hostPath": {"path": str(notes), "type": "Directory"}},
        ],
    }
    return {"spec": spec}
