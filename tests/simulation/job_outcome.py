"""What is not as it should be of RayJobs and what they were made of, when peace has come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.simulation.job_referee import TERMINAL
from tests.simulation.witnessed_ray import Run, WitnessedRay

Object = dict[str, Any]

DISABLED = "ray.io/disable-provisioned-head-restart"


def job_shortcomings(
    jobs: list[Object], made: dict[str, list[Object]], ray: WitnessedRay
) -> list[str]:
    """Sentences; none if all jobs have come to their right ends and nothing else is left.

    Args:
        made: RayClusters, Jobs and Services, by their table.
        ray: tells the truth.
    """
    wrong = [sentence for job in jobs for sentence in _status(job)]
    if wrong:
        return wrong
    by_uid = {job["metadata"]["uid"]: job for job in jobs}
    for table, objects in made.items():
        for obj in objects:
            wrong += _left(table, obj, by_uid)
    wrong += _still_running(by_uid, made["rayclusters.ray.io"], ray)
    return wrong


def keeps_no_head(cluster: Object) -> bool:
    """Whether a head of it that has ended stays so: then its pods are as they are."""
    return DISABLED in cluster["metadata"].get("annotations", {})


def _status(job: Object) -> Iterator[str]:
    meta, status = job["metadata"], job.get("status", {})
    state = status.get("jobDeploymentStatus", "")
    if "deletionTimestamp" in meta:
        yield f"{meta['name']} is not gone; finalizers {meta.get('finalizers')}"
    elif state not in TERMINAL and not (state == "Suspended" and job["spec"].get("suspend")):
        yield f"{meta['name']} is {state or 'New'!r}; conditions {status.get('conditions')}"
    elif status.get("observedGeneration") != meta["generation"]:
        yield f"{meta['name']} observed generation {status.get('observedGeneration')}"


def _left(table: str, obj: Object, jobs: dict[str, Object]) -> Iterator[str]:
    """Something that nobody needs any more."""
    meta = obj["metadata"]
    owner = next((each for each in meta.get("ownerReferences", []) if each.get("controller")), {})
    if owner.get("kind") != "RayJob":
        return
    what = f"{table} {meta['name']}"
    job = jobs.get(owner["uid"])
    if job is None:
        yield f"{what} is left of a job that is gone"
        return
    state = job["status"]["jobDeploymentStatus"]
    if table == "rayclusters.ray.io":
        if state == "Suspended" or job["spec"].get("shutdownAfterJobFinishes"):
            yield f"{what} is left, and {job['metadata']['name']} is {state}"
        elif meta["name"] != job["status"].get("rayClusterName"):
            yield f"{what} is left of an earlier attempt"
    elif table == "jobs.batch" and state == "Suspended":
        yield f"{what} is left of a suspended job"


def _still_running(
    jobs: dict[str, Object], clusters: list[Object], ray: WitnessedRay
) -> Iterator[str]:
    """All jobs are over: in Ray something may run only on a cluster that was to stay."""
    kept = {
        cluster["metadata"]["uid"]: jobs.get(each["uid"])
        for cluster in clusters
        for each in cluster["metadata"].get("ownerReferences", [])
    }
    for run in ray.history:
        if _runs(run, ray) and kept.get(run.place[0]) is None:
            yield f"{run.job.id} still runs on {run.place}"


def _runs(run: Run, ray: WitnessedRay) -> bool:
    return ray.is_alive(run) and not ray.truth(run).terminal
