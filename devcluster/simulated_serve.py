"""A Ray Serve in memory: it deploys configs and follows `target_capacity` as a real one did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

# The answers of a simulated dashboard, with the status and content type of Ray's own.


class Answer(NamedTuple):
    """One complete answer of a dashboard or a Serve proxy."""

    status: int
    content_type: str
    body: bytes


def json_answer(body: Any) -> Answer:
    """Return the answer of a request that succeeded."""
    return Answer(200, "application/json", json.dumps(body).encode())


def text_answer(status: int, text: str) -> Answer:
    """Return a text, as Ray answers a request that fails."""
    return Answer(status, "text/plain", text.encode())


def no_such_job(job_id: str) -> Answer:
    """Return the answer to a request about a job that Ray does not know."""
    return text_answer(404, f"Job {job_id} does not exist")


def refused_by_agent(reason: str) -> Answer:
    """Return how the dashboard passes on that the agent of the head refused a request."""
    return text_answer(
        500,
        "Traceback (most recent call last):\nRuntimeError: Request failed with status code 400: "
        f"ValueError: {reason}.",
    )


def invalid_config(field: str, error: str) -> Answer:
    """Return the refusal of a Serve config."""
    words = f"1 validation error for ServeDeploySchema\n{field}\n  {error}"
    return text_answer(400, words)


STARTING: Final = 3.0
"""Seconds until a new replica runs, as real Ray took."""


NEVER_DEPLOYED: Final[dict[str, Any]] = {
    "controller_info": {},
    "proxies": {},
    "applications": {},
    "target_capacity": None,
}


@dataclass
class Deployment:
    """One deployment: `before` replicas run until `changed` plus the time to start."""

    replicas: int
    changed: float
    before: int = 0
    target: int = 0

    def running(self, now: float, starting: float) -> int:
        """Return how many replicas run."""
        if self.target <= self.before or now >= self.changed + starting:
            return self.target
        return self.before

    def ready(self, capacity: float, now: float, starting: float) -> float:
        """Return the largest capacity, in percent, for which the replicas that run are enough."""
        running = self.running(now, starting)
        return capacity if running >= self.target else (running + 0.5) * 100 / self.replicas

    def scale(self, capacity: float | None, now: float, starting: float) -> None:
        """Begin to scale to this capacity."""
        target = scaled(self.replicas, capacity)
        if target != self.target:
            self.before, self.target = self.running(now, starting), target
            self.changed = now


@dataclass
class Application:
    """One application and the config that it was deployed by."""

    config: dict[str, Any]
    deployments: dict[str, Deployment]
    changed: float


def scaled(replicas: int, capacity: float | None) -> int:
    """Return the replicas at a capacity: half is rounded up; one at least, unless it is 0."""
    if capacity is None:
        return replicas
    return max(1, int(replicas * capacity / 100 + 0.5)) if capacity else 0


@dataclass
class SimulatedServe:
    """The Serve of one head incarnation.

    Attributes:
        starting: seconds until a new replica runs.
        failing: status and message of applications that do not run, by name.
        draining: IP addresses of nodes whose proxies take no requests any more.
        puts: bodies of the configs that were accepted, in order.
    """

    starting: float = STARTING
    failing: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    draining: set[str] = field(default_factory=set[str])
    puts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    applications: dict[str, Application] = field(default_factory=dict[str, Application])
    capacity: float | None = None

    def put(self, body: bytes, now: float) -> Answer:
        """Deploy a config; applications that it does not name go."""
        config = json.loads(body)
        applications = config["applications"]
        if any("import_path" not in each for each in applications):
            number = next(n for n, each in enumerate(applications) if "import_path" not in each)
            return invalid_config(f"applications.{number}.import_path", "Field required")
        routes = [each.get("route_prefix", "/") for each in applications]
        if len(set(routes)) < len(routes):
            return invalid_config("applications", "Value error, duplicate route prefixes")
        self.puts.append(config)
        self.capacity = config.get("target_capacity")
        wanted = {each.get("name", "default"): each for each in applications}
        self.applications = {name: self._deployed(name, each, now) for name, each in wanted.items()}
        return Answer(200, "", b"")

    def _deployed(self, name: str, config: dict[str, Any], now: float) -> Application:
        old = self.applications.get(name)
        if old is not None and old.config == config:
            found = old
        else:
            before = {} if old is None else old.deployments
            found = Application(config, _deployments(config, now, before), now)
        for each in found.deployments.values():
            each.scale(self.capacity, now, self.starting)
        return found

    def ready(self, now: float) -> float:
        """Return the percentage of its full size that runs, of the smallest deployment."""
        capacity = 100.0 if self.capacity is None else self.capacity
        shares = (
            deployment.ready(capacity, now, self.starting)
            for application in self.applications.values()
            for deployment in application.deployments.values()
        )
        return min(shares, default=0.0)

    def proxy_health(self, address: str) -> Answer | None:
        """Return what the proxy at an address says; None if there is no proxy yet."""
        if not self.puts:
            return None
        if address in self.draining:
            return text_answer(503, "This node is being drained.")
        return text_answer(200, "success")

    def state(self, addresses: Iterable[str], now: float) -> Answer:
        """Return the answer to `GET /api/serve/applications/`."""
        if not self.puts:
            return json_answer(NEVER_DEPLOYED)
        proxies = {each: {"node_ip": each, "status": "HEALTHY"} for each in addresses}
        applications = {name: self._described(name, now) for name in self.applications}
        return json_answer(
            {
                "controller_info": {"actor_name": "SERVE_CONTROLLER_ACTOR"},
                "proxy_location": "EveryNode",
                "proxies": proxies,
                "applications": applications,
                "target_capacity": self.capacity,
            }
        )

    def _described(self, name: str, now: float) -> dict[str, Any]:
        found = self.applications[name]
        deployments = {
            each: self._described_deployment(each, deployment, now)
            for each, deployment in found.deployments.items()
        }
        healthy = all(each["status"] == "HEALTHY" for each in deployments.values())
        complete = healthy and now >= found.changed + self.starting
        status, message = self.failing.get(name, ("RUNNING" if complete else "DEPLOYING", ""))
        return {
            "name": name,
            "route_prefix": found.config.get("route_prefix", "/"),
            "status": status,
            "message": message,
            "deployments": deployments,
            "deployed_app_config": found.config,
        }

    def _described_deployment(self, name: str, found: Deployment, now: float) -> dict[str, Any]:
        running = found.running(now, self.starting)
        return {
            "name": name,
            "status": "HEALTHY" if running >= found.target else "UPSCALING",
            "message": "",
            "target_num_replicas": found.target,
            "replicas": [{"state": "RUNNING"}] * running,
        }


def _deployments(
    config: dict[str, Any], now: float, before: Mapping[str, Deployment]
) -> dict[str, Deployment]:
    """Return the deployments of a config; what ran before goes on until it is replaced."""
    listed = config.get("deployments") or [{"name": "App"}]
    found: dict[str, Deployment] = {}
    for each in listed:
        old = before.get(each["name"], Deployment(0, now))
        found[each["name"]] = replace(old, replicas=each.get("num_replicas", 1))
    return found
