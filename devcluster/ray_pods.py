"""The Rays of an embedded cluster whose pods are simulated: who asks them, and what runs there.

They are reached as real ones are: through the API server's proxy to a head service or pod. The
containers that submit RayJobs do here what their script does; the kubelet asks how they ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from controller.ray.dashboard.responses import JobStatus
from devcluster.apiserver import ApiServer
from devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    bytes_response,
    proxy_target,
)
from devcluster.apiserver.status import unavailable
from devcluster.nodes.components import ANNOTATION_PREFIX
from devcluster.nodes.endpointslices import selects
from devcluster.simulated_ray import (
    NEVER,
    VERSION,
    Course,
    Incarnation,
    NodePod,
    SimulatedRay,
)
from devcluster.simulated_serve import Answer, text_answer

Json = dict[str, Any]

COURSE: Final = ANNOTATION_PREFIX + "job"
"""Annotation of a RayJob: how its simulated job goes, `RESULT [after=SECONDS]` for each attempt."""

RAY: Final = ANNOTATION_PREFIX + "ray"
"""Annotation of a head pod: `silent` if its Ray does not answer."""

_USUAL: Final = Course(pending=1.0, running=4.0)
_JOB_ID, _ADDRESS = "RAY_JOB_SUBMISSION_ID", "RAY_DASHBOARD_ADDRESS"
_SERVE_PORT: Final = "8000"
_TAG: Final = re.compile(r":(\d+\.\d+\.\d+)")
_COURSE: Final = re.compile(r"(SUCCEEDED|FAILED|STOPPED|RUNNING)(?:\s+after=(\d+(?:\.\d+)?)s?)?")


def course_of(text: str, attempt: int) -> Course:
    """Return how an attempt goes by the annotation; the last entry is for all further attempts."""
    entries = [entry.strip() for entry in text.split(",")]
    entry = entries[min(attempt, len(entries) - 1)]
    match = _COURSE.fullmatch(entry)
    if match is None:
        problem = (
            f"annotation {COURSE}: {entry!r} is not RESULT [after=SECONDS], with a result of "
            "SUCCEEDED, FAILED, STOPPED or RUNNING (for ever)"
        )
        return Course(_USUAL.pending, 0.0, JobStatus.FAILED, problem)
    if match[1] == "RUNNING":
        return Course(_USUAL.pending, NEVER)
    running = _USUAL.running if match[2] is None else float(match[2])
    message = f"the job failed, as its annotation {COURSE} asks" if match[1] == "FAILED" else ""
    return Course(_USUAL.pending, running, JobStatus(match[1]), message)


class SimulatedRays:
    """All Rays of one API server: its hooks `service_proxy` and `pod_proxy`, and `Programs`."""

    def __init__(self, server: ApiServer, wall: Callable[[], datetime]) -> None:
        self._store = server.store
        self.ray = SimulatedRay(
            course=self._course,
            nodes=lambda place: (pod.address for pod in self._joined_pods(place)),
            pods=self._joined_pods,
            version=self._version,
            epoch=wall() - timedelta(seconds=SimulatedRay.now()),
        )
        self._joined: set[tuple[str, int]] = set()  # uid of the pod, and restarts
        self._submitted: set[str] = set()  # uids of the pods whose submitter has submitted

    # Who asks.

    async def service_proxy(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Answer a request to a service that leads to pods of Ray."""
        _, name, port = proxy_target(where.name)
        service = self._item("services", f"{where.namespace}/{name}")
        for known in service["spec"].get("ports", ()):
            if port in {str(known["port"]), known.get("name")}:
                port = "serve" if known.get("name") == "serve" else str(known["port"])
        for pod in self._behind(service):
            if answer := self._answer(pod, port, request, where.rest):
                return _response(answer)
        raise unavailable(f'no endpoints available for service "{name}": no Ray is ready there')

    async def pod_proxy(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Answer a request to a pod of Ray."""
        _, name, port = proxy_target(where.name)
        pod = self._item("pods", f"{where.namespace}/{name}")
        if answer := self._answer(pod, port, request, where.rest):
            return _response(answer)
        raise unavailable(f'nothing listens in simulated pod "{name}"')

    def _answer(self, pod: Json, port: str, request: ApiRequest, path: str) -> Answer | None:
        if port in {"serve", _serve_port(pod)}:
            return self._answer_of_serve(pod, path)
        place = _place(pod)
        if place is None or not _listens(pod):
            return None
        return self.ray.answer(place, request.method, path, request.body)

    def _answer_of_serve(self, pod: Json, path: str) -> Answer | None:
        cluster, address = _owner(pod), pod.get("status", {}).get("podIP", "")
        heads = (_place(head) for head in self._pods_of(cluster) if _listens(head))
        place = next(filter(None, heads), None)
        if place is None or not _is_ready(pod):
            return None
        serve = self.ray.serve(place)
        health = serve.proxy_health(address)
        if health is None or path == "/-/healthz":
            return health
        for name, application in serve.applications.items():
            if path.startswith(application.config.get("route_prefix", "/")):
                return text_answer(200, f"application {name} is simulated: it runs no code")
        return text_answer(404, f"Path '{path}' not found.")

    # What runs in the pods: `Programs` of the kubelet.

    def follows(self, key: str) -> bool:
        """Return whether a container of the pod submits a job and ends with it."""
        stored = self._store.table("pods").items.get(key)
        return stored is not None and any(_submitters(stored.object))

    def exits(self, key: str) -> Mapping[str, int | None]:
        """Return the exit code of each running submitter in a pod; None if it goes on."""
        stored = self._store.table("pods").items.get(key)
        if stored is None:
            return {}
        pod = stored.object
        running = _running(pod)
        return {
            container["name"]: self._exit(pod, container, env)
            for container, env in _submitters(pod)
            if container["name"] in running
        }

    def _exit(self, pod: Json, container: Json, env: Mapping[str, str]) -> int | None:
        place, uid, job_id = self._asked_head(pod, env), pod["metadata"]["uid"], env[_JOB_ID]
        if place is None:
            return None
        job = self.ray.job_at(place, job_id)
        if job is None:
            if uid in self._submitted:
                return 1  # `ray job logs` asks a new head about a job of the former one
            self._submitted.add(uid)
            rayjob = self._rayjob(job_id)
            entrypoint = rayjob.get("spec", {}).get("entrypoint") or "(of a submitter)"
            self.ray.submit(place, {"entrypoint": entrypoint, "submission_id": job_id})
            return None
        self._submitted.add(uid)
        status = job.status(self.ray.now())
        if not status.terminal:
            return None
        follows_log_only = any("--no-wait" in each for each in container.get("args", ()))
        return int(status is not JobStatus.SUCCEEDED and not follows_log_only)

    def _asked_head(self, pod: Json, env: Mapping[str, str]) -> Incarnation | None:
        """Return the head that a submitter asks: beside it, or behind the address of a service."""
        host = env.get(_ADDRESS, "").removeprefix("http://").partition(":")[0]
        if not host:
            return _place(pod) if _listens(pod) else None
        name, _, rest = host.partition(".")
        namespace = rest.partition(".")[0] or pod["metadata"]["namespace"]
        service = self._store.table("services").items.get(f"{namespace}/{name}")
        heads = self._behind(service.object) if service else ()
        return next((place for head in heads if _listens(head) and (place := _place(head))), None)

    def _course(self, body: Json) -> Course:
        """Return how a job goes: as its RayJob asks."""
        rayjob = self._rayjob(body["submission_id"])
        annotations: dict[str, str] = rayjob.get("metadata", {}).get("annotations") or {}
        if text := annotations.get(COURSE):
            return course_of(text, rayjob.get("status", {}).get("failed") or 0)
        return _USUAL

    def _rayjob(self, job_id: str) -> Json:
        for stored in self._store.table("rayjobs.ray.io").items.values():
            found: Json = stored.object
            if found.get("status", {}).get("jobId") == job_id:
                return found
        return {}

    def _version(self, place: Incarnation) -> str:
        """Return the version in the tag of the head's image, as real Ray would report it."""
        for pod in self._pods_of(place[0]):
            if pod["metadata"]["uid"] == place[1]:
                tag = _TAG.search(pod["spec"]["containers"][0].get("image", ""))
                return tag[1] if tag else VERSION
        return VERSION

    # Pods.

    def _joined_pods(self, place: Incarnation) -> list[NodePod]:
        """Return the pods whose Ray has joined: with their readiness, for as long as it runs."""
        found: list[NodePod] = []
        for pod in self._pods_of(place[0]):
            ray = _ray_container(pod)
            running = ray.get("state", {}).get("running")
            this = (pod["metadata"]["uid"], ray.get("restartCount", 0))
            if _is_ready(pod):
                self._joined.add(this)
            if this in self._joined and running:
                started = datetime.fromisoformat(running["startedAt"])
                address = pod["status"]["podIP"]
                found.append(NodePod(this[0], address, started, this[1], _is_head(pod)))
        return found

    def _pods_of(self, cluster: str) -> Iterator[Json]:
        for stored in self._store.table("pods").items.values():
            if cluster and _owner(stored.object) == cluster:
                yield stored.object

    def _behind(self, service: Json) -> list[Json]:
        """Return the pods that a service leads to; in a simulation also those not ready."""
        selector: dict[str, str] = service["spec"].get("selector") or {}
        namespace = service["metadata"]["namespace"]
        pods = (stored.object for stored in self._store.table("pods").items.values())
        return [
            pod
            for pod in pods
            if pod["metadata"]["namespace"] == namespace
            and "deletionTimestamp" not in pod["metadata"]
            and selects(selector, pod["metadata"].get("labels"))
        ]

    def _item(self, table: str, key: str) -> Json:
        return self._store.table(table).items[key].object


def _serve_port(pod: Json) -> str:
    """Return where the Serve proxy of a pod listens: the port that it names so, or Serve's own."""
    ports = (port for each in pod["spec"]["containers"] for port in each.get("ports", ()))
    named = (str(each["containerPort"]) for each in ports if each.get("name") == "serve")
    return next(named, _SERVE_PORT)


def _submitters(pod: Json) -> Iterator[tuple[Json, dict[str, str]]]:
    for container in pod["spec"]["containers"]:
        env = {each["name"]: each.get("value", "") for each in container.get("env", ())}
        if env.get(_JOB_ID):
            yield container, env


def _running(pod: Json) -> set[str]:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return {each["name"] for each in statuses if "running" in each.get("state", {})}


def _ray_container(pod: Json) -> Json:
    """Return the status of the first container of the specification, which runs Ray."""
    name = pod["spec"]["containers"][0]["name"]
    statuses = pod.get("status", {}).get("containerStatuses", ())
    none: Json = {}
    return next((each for each in statuses if each["name"] == name), none)


def _listens(pod: Json) -> bool:
    """Return whether a pod is a head whose dashboard answers.

    A submitter beside the head that has ended leaves the pod unready, and Ray running.
    """
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    if annotations.get(RAY) == "silent":
        return False
    if not _is_head(pod) or "running" not in _ray_container(pod).get("state", {}):
        return False
    ended = any(each["name"] not in _running(pod) for each, _ in _submitters(pod))
    return ended or _is_ready(pod)


def _is_head(pod: Json) -> bool:
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    return labels.get("ray.io/node-type") == "head"


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences", ())
    return next((each["uid"] for each in owners if each.get("controller")), "")


def _place(pod: Json) -> Incarnation | None:
    if not _is_head(pod):
        return None
    return _owner(pod), pod["metadata"]["uid"], _ray_container(pod).get("restartCount", 0)


def _response(answer: Answer) -> ApiResponse:
    return bytes_response(answer.status, answer.body, answer.content_type)
