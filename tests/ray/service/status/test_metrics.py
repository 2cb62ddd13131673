"""Metrics of RayServices, as they are scraped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller.ray.api.rayservice import RayService
from controller.ray.service import ServiceCollector

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
IDENTITY = 'name="svc",namespace="default",uid="u"'


def registry_of(services: list[RayService]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ServiceCollector(lambda: services, lambda: NOW))
    return registry


def service(**status: Any) -> RayService:
    meta = {"name": "svc", "namespace": "default", "uid": "u"}
    return msgspec.convert({"metadata": meta, "spec": {}, "status": status}, RayService)


def lines(registry: CollectorRegistry) -> list[str]:
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def true(*kinds: str) -> list[dict[str, str]]:
    since = "2026-01-01T00:00:00Z"
    return [{"type": each, "status": "True", "lastTransitionTime": since} for each in kinds]


def test_a_service_in_mid_upgrade_shows_both_clusters_and_how_long_it_has_taken():
    found = lines(
        registry_of(
            [
                service(
                    conditions=true("Ready", "UpgradeInProgress"),
                    numServeEndpoints=3,
                    activeServiceStatus={
                        "rayClusterName": "a",
                        "targetCapacity": 60,
                        "trafficRoutedPercent": 70,
                    },
                    pendingServiceStatus={
                        "rayClusterName": "b",
                        "targetCapacity": 40,
                        "trafficRoutedPercent": 30,
                    },
                )
            ]
        )
    )
    active, pending = 'ray_cluster="a",role="active"', 'ray_cluster="b",role="pending"'
    assert found == [
        f"kuberay_service_info{{{IDENTITY}}} 1.0",
        f'kuberay_service_condition_ready{{condition="true",{IDENTITY}}} 1.0',
        f'kuberay_service_condition_upgrade_in_progress{{condition="true",{IDENTITY}}} 1.0',
        'manta_service_state{name="svc",namespace="default",state="upgrading",uid="u"} 1.0',
        f"manta_service_endpoints{{{IDENTITY}}} 3.0",
        f'manta_service_capacity_percent{{name="svc",namespace="default",{active},uid="u"}} 60.0',
        f'manta_service_capacity_percent{{name="svc",namespace="default",{pending},uid="u"}} 40.0',
        f'manta_service_weight_percent{{name="svc",namespace="default",{active},uid="u"}} 70.0',
        f'manta_service_weight_percent{{name="svc",namespace="default",{pending},uid="u"}} 30.0',
        f"manta_service_upgrade_seconds{{{IDENTITY}}} 600.0",
    ]


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ((), "not_ready"),
        (("Ready",), "serving"),
        (("Ready", "UpgradeInProgress"), "upgrading"),
        (("Ready", "UpgradeInProgress", "RollbackInProgress"), "rolling_back"),
        (("Suspending",), "suspending"),
        (("Suspended",), "suspended"),
    ],
)
def test_a_service_has_one_state(kinds: tuple[str, ...], state: str):
    found = lines(registry_of([service(conditions=true(*kinds))]))
    (line,) = (each for each in found if each.startswith("manta_service_state"))
    assert f'state="{state}"' in line


def test_the_only_cluster_has_full_capacity_and_gets_all_requests():
    found = lines(registry_of([service(activeServiceStatus={"rayClusterName": "a"})]))
    assert [each.rpartition(" ")[2] for each in found if "_percent" in each] == ["100.0", "100.0"]


def test_a_deleted_service_leaves_no_series():
    services = [service(conditions=true("Ready"))]
    registry = registry_of(services)
    assert lines(registry)
    services.clear()
    assert not lines(registry)
