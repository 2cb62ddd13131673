"""A Ray Serve in memory: it deploys configs and follows `target_capacity` as a real one did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.ray.dashboard.transport import DashboardResponse
from tests.ray.dashboard.recorded import recorded

STARTING = 3.0
"""Seconds until a new replica runs, as real Ray took."""


@dataclass
class Deployment:
    """One deployment: `before` replicas run until `changed` plus the time to start."""

    replicas: int
    changed: float
    before: int = 0
    target: int = 0

    def running(self, now: float, starting: float) -> int:
        if self.target <= self.before or now >= self.changed + starting:
            return self.target
        return self.before

    def ready(self, capacity: float, now: float, starting: float) -> float:
        """The largest capacity, in percent, for which the replicas that run are enough."""
        running = self.running(now, starting)
        return capacity if running >= self.target else (running + 0.5) * 100 / self.replicas

    def scale(self, capacity: float | None, now: float, starting: float) -> None:
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
    """Ray's rule: half is rounded up, and one is the least unless the capacity is 0."""
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
    failing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    puts: list[dict[str, Any]] = field(default_factory=list)
    applications: dict[str, Application] = field(default_factory=dict)
    capacity: float | None = None

    def put(self, body: bytes, now: float) -> DashboardResponse:
        config = json.loads(body)
        applications = config["applications"]
        if any("import_path" not in each for each in applications):
            return recorded("serve-put-missing-import-path-400")
        routes = [each.get("route_prefix", "/") for each in applications]
        if len(set(routes)) < len(routes):
            return recorded("serve-put-duplicate-route-400")
        self.puts.append(config)
        self.capacity = config.get("target_capacity")
        wanted = {each.get("name", "default"): each for each in applications}
        self.applications = {name: self._deployed(name, each, now) for name, each in wanted.items()}
        return recorded("serve-put")

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
        """How much of its full size runs, in percent, by the deployment that has the least."""
        capacity = 100.0 if self.capacity is None else self.capacity
        shares = (
            deployment.ready(capacity, now, self.starting)
            for application in self.applications.values()
            for deployment in application.deployments.values()
        )
        return min(shares, default=0.0)

    def proxy_health(self, address: str) -> DashboardResponse | None:
        """None if there is no proxy yet."""
        if not self.puts:
            return None
        return recorded(
            "proxy-healthz-draining-503" if address in self.draining else "proxy-healthz-200"
        )

    def state(self, addresses: Iterable[str], now: float) -> DashboardResponse:
        if not self.puts:
            return recorded("serve-get-never-deployed")
        proxies = {each: {"node_ip": each, "status": "HEALTHY"} for each in addresses}
        applications = {name: self._described(name, now) for name in self.applications}
        return recorded(
            "serve-get-running",
            applications=applications,
            proxies=proxies,
            target_capacity=self.capacity,
        )

    def _described(self, name: str, now: float) -> dict[str, Any]:
        found = self.applications[name]
        deployments = {
            each: self._described_deployment(deployment, now)
            for each, deployment in found.deployments.items()
        }
        healthy = all(each["status"] == "HEALTHY" for each in deployments.values())
        complete = healthy and now >= found.changed + self.starting
        status, message = self.failing.get(name, ("RUNNING" if complete else "DEPLOYING", ""))
        return {
            "status": status,
            "message": message,
            "deployments": deployments,
            "deployed_app_config": found.config,
        }

    def _described_deployment(self, found: Deployment, now: float) -> dict[str, Any]:
        running = found.running(now, self.starting)
        return {
            "status": "HEALTHY" if running >= found.target else "UPSCALING",
            "message": "",
            "target_num_replicas": found.target,
            "replicas": [{"state": "RUNNING"}] * running,
        }


def _deployments(
    config: dict[str, Any], now: float, before: Mapping[str, Deployment]
) -> dict[str, Deployment]:
    """The deployments of a config; what ran before goes on until its replicas are replaced."""
    listed = config.get("deployments") or [{"name": "App"}]
    found: dict[str, Deployment] = {}
    for each in listed:
        old = before.get(each["name"], Deployment(0, now))
        found[each["name"]] = replace(old, replicas=each.get("num_replicas", 1))
    return found
