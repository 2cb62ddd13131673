"""RayJobs made of plain values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import yaml

from controller.apimachinery.conditions import READY, find_condition
from controller.ray.api import JobSpec, RayJob
from controller.ray.api.validation.job import validate_job
from tests.ray.cluster.support import manifest
from tests.samples import SAMPLES

UID = "uid-of-job"


def job_manifest(name: str = "example", **spec: Any) -> dict[str, Any]:
    """A RayJob on a cluster like our example, with these fields of its spec; None removes."""
    full = {"entrypoint": "python job.py", "rayClusterSpec": copy.deepcopy(_cluster_spec())} | spec
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": "default", "uid": UID},
        "spec": {key: value for key, value in full.items() if value is not None},
    }


@cache
def _cluster_spec() -> dict[str, Any]:
    return manifest()["spec"]


def rayjob(raw: dict[str, Any] | None = None, **spec: Any) -> RayJob:
    """A stored RayJob: of this manifest, or of one with these fields of its spec."""
    raw = copy.deepcopy(raw or job_manifest(**spec))
    metadata = {"namespace": "default", "uid": UID, "generation": 1, "resourceVersion": "1"}
    raw["metadata"] = metadata | raw["metadata"]
    return msgspec.convert(raw, RayJob)


def valid(job: RayJob) -> JobSpec:
    """The specification of a job that must be valid."""
    spec = validate_job(job)
    assert isinstance(spec, JobSpec), spec
    return spec


def is_head_lost(status: Mapping[str, Any]) -> bool:
    """Whether it says that the head is lost: KubeRay's reason in its field, the rest beside it."""
    ready = find_condition(status["conditions"], READY) or {}
    told = ready.get("reason"), status["reason"]
    return told == ("HeadLost", "AppFailed") and status["message"].startswith("HeadLost: ")


def changed(raw: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The manifest with values set (or, with None, removed) at dotted paths."""
    raw = copy.deepcopy(raw)
    for path, value in changes.items():
        *parents, last = path.replace("[", ".").replace("]", "").split(".")
        node: Any = raw
        for part in parents:
            is_list = isinstance(node, list)
            node = node[int(part)] if is_list else node.setdefault(part, {})
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return raw


def sample_jobs() -> list[dict[str, Any]]:
    """KubeRay's samples of RayJobs with a cluster, with names; none if they are not there."""
    found = [
        document
        for path in sorted(SAMPLES.glob("ray-job.*.yaml"))
        for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        if document and document["kind"] == "RayJob"
    ]
    for document in found:
        meta = document["metadata"]
        meta.setdefault("name", f"{meta.pop('generateName', '')}abcde")
    return found
