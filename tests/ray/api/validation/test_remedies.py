"""Who follows what is told about a cluster, service or schedule meets no refusal that is new.

The same is tested for all pairs of rules of RayJobs in `test_pairs_of_job_rules.py`.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any

import msgspec
import pytest

from controller.apimachinery.validation import Problem
from controller.ray.api import RayService, validate_cluster
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycronjob import validate_cron_job
from controller.ray.api.rayservice import validate_service
from tests.integration.rayservices import service_manifest
from tests.ray.cluster.support import cluster, manifest
from tests.ray.cronjob.support import cron_job
from tests.ray.job.rayjobs import changed
from tests.ray.service.scenes import STEPWISE

Changes = dict[str, Any]

GATES = FeatureGates.parse("RayServiceIncrementalUpgrade=true")
HEAD = "spec.headGroupSpec"
ENV = f"{HEAD}.template.spec.containers[0].env"
GROUP = "spec.workerGroupSpecs[0]"
ALWAYS: Changes = {f"{HEAD}.template.spec.restartPolicy": "Always"}
OWN_POLICY: Changes = {f"{GROUP}.template.spec.restartPolicy": "OnFailure"}
V2: Changes = {"spec.autoscalerOptions": {"version": "v2"}}
ROCKSDB: Changes = {"spec.gcsFaultToleranceOptions": {"backend": "rocksdb"}}
OF_JOB: Changes = {"metadata.labels": {"ray.io/originated-from-crd": "RayJob"}}


def variables(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def redis(**options: Any) -> Changes:
    return {"spec.gcsFaultToleranceOptions": {"redisAddress": "redis:6379", **options}}


CLUSTERS: list[tuple[str, Changes, Changes]] = [
    (
        "two resources are each said twice",
        {
            f"{HEAD}.rayStartParams": {"num-cpus": "1", "num-gpus": "1"},
            f"{HEAD}.resources": {"A": "1"},
        },
        {f"{HEAD}.rayStartParams": {"num-gpus": "1"}},
    ),
    (
        "an idle timeout of a group beside a head that restarts",
        {"spec.enableInTreeAutoscaling": True, f"{GROUP}.idleTimeoutSeconds": 5, **ALWAYS},
        V2,
    ),
    (
        "an idle timeout of a group that restarts beside autoscaler v1",
        {
            "spec.enableInTreeAutoscaling": True,
            "spec.autoscalerOptions": {"version": "v1"},
            f"{GROUP}.idleTimeoutSeconds": 5,
            **OWN_POLICY,
        },
        V2,
    ),
    (
        "a priority of a group beside the variable of the autoscaler",
        {
            "spec.enableInTreeAutoscaling": True,
            "spec.rayVersion": "2.56.0",
            f"{GROUP}.priority": 1,
            ENV: variables(RAY_enable_autoscaler_v2="0"),
        },
        V2,
    ),
    (
        "an address of Redis and its password in variables",
        {ENV: variables(RAY_REDIS_ADDRESS="r", REDIS_PASSWORD="p")},
        redis() | {ENV: variables(REDIS_PASSWORD="p")},
    ),
    (
        "an address of Redis beside older annotations",
        {
            ENV: variables(RAY_REDIS_ADDRESS="r"),
            "metadata.annotations": {
                "ray.io/ft-enabled": "false",
                "ray.io/external-storage-namespace": "n",
            },
            f"{HEAD}.rayStartParams": {"redis-password": "p"},
        },
        redis() | {ENV: []},
    ),
    (
        "a user of Redis beside the older way",
        {
            ENV: variables(RAY_REDIS_ADDRESS="r", REDIS_USERNAME="u"),
            "metadata.annotations": {"ray.io/ft-enabled": "true"},
        },
        redis(redisUsername={"value": "u"}) | {ENV: variables(RAY_REDIS_ADDRESS="r")},
    ),
    (
        "tokens of Kubernetes with authentication turned off",
        {
            "spec.authOptions": {"mode": "disabled", "enableK8sTokenAuth": True, "secretName": "s"},
            "spec.rayVersion": "2.50.0",
        },
        {"spec.authOptions": {"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"}},
    ),
    (
        "settings of a rolling update on the cluster of a job",
        {"spec.upgradeStrategy": {"rollingUpdate": {"maxSurge": 1}}, **OF_JOB},
        {"spec.upgradeStrategy": None},
    ),
]

CONFIG = "spec.rayClusterConfig"
SERVICES: list[tuple[str, Changes, Changes]] = [
    (
        "an incremental upgrade without an autoscaler, with a suspended group",
        {"spec.upgradeStrategy": STEPWISE, f"{CONFIG}.workerGroupSpecs[0].suspend": True},
        {f"{CONFIG}.enableInTreeAutoscaling": True},
    ),
    (
        "an incremental upgrade without an autoscaler, on a cluster that shrinks when idle",
        {
            "spec.upgradeStrategy": STEPWISE,
            f"{CONFIG}.idleTerminationOptions": {"timeoutSeconds": 60, "policy": "ScaleToMinimum"},
        },
        {f"{CONFIG}.enableInTreeAutoscaling": True},
    ),
]


def told_of_cluster(changes: Changes) -> tuple[Problem, ...]:
    return problems(validate_cluster(cluster(changed(manifest(), changes))))


def told_of_service(changes: Changes) -> tuple[Problem, ...]:
    stored = msgspec.convert(changed(service_manifest(), changes), RayService)
    return problems(validate_service(stored, GATES))


def problems(found: object) -> tuple[Problem, ...]:
    return found.all if isinstance(found, Problem) else ()


def assert_nothing_new(before: tuple[Problem, ...], after: tuple[Problem, ...]):
    new = {each.field for each in after} - {each.field for each in before}
    assert not new, f"{new} had not been told"
    assert len(after) < len(before), "the remedy is none"
    for problem in before:
        assert all(field in problem.message for field in problem.against), problem


@pytest.mark.parametrize(("case", "wrong", "remedy"), CLUSTERS, ids=[case for case, *_ in CLUSTERS])
def test_a_remedy_for_a_cluster_leads_to_no_other_refusal(
    case: str, wrong: Changes, remedy: Changes
):
    assert_nothing_new(told_of_cluster(wrong), told_of_cluster(wrong | remedy))


@pytest.mark.parametrize(("case", "wrong", "remedy"), SERVICES, ids=[case for case, *_ in SERVICES])
def test_a_remedy_for_a_service_leads_to_no_other_refusal(
    case: str, wrong: Changes, remedy: Changes
):
    assert_nothing_new(told_of_service(wrong), told_of_service(wrong | remedy))


def test_what_an_incremental_upgrade_needs_is_told_with_its_fields():
    told = told_of_service({"spec.upgradeStrategy": {"type": STEPWISE["type"]}})
    (problem,) = (each for each in told if each.field.endswith("clusterUpgradeOptions"))
    for field in ("gatewayClassName", "stepSizePercent", "intervalSeconds"):
        assert field in problem.message


def test_a_cluster_of_a_job_is_not_advised_to_do_what_it_may_not():
    _, wrong, _ = CLUSTERS[-1]
    (problem,) = told_of_cluster(wrong)
    assert problem.field == "spec.upgradeStrategy.rollingUpdate"
    assert problem.message == "cannot be set on a cluster of a RayJob"


@pytest.mark.parametrize(
    "wrong",
    [
        {ENV: variables(RAY_enable_autoscaler_v2="1"), f"{GROUP}.suspend": True},
        ROCKSDB | {ENV: variables(RAY_REDIS_ADDRESS="r", REDIS_PASSWORD="p")},
        ROCKSDB | {f"{HEAD}.rayStartParams": {"redis-username": "u"}},
    ],
)
def test_what_no_other_setting_makes_right_is_to_be_removed(wrong: Changes):
    for problem in told_of_cluster(wrong):
        assert "remove it" in problem.message, problem


def test_what_else_is_wrong_with_a_schedule_is_told_beside_its_time_zone():
    found = validate_cron_job(cron_job(schedule="CRON_TZ=UTC 61 * * * *"), GATES, UTC)
    assert isinstance(found, Problem)
    assert [each.field for each in found.all] == ["spec.schedule"] * 2
    assert "61" in found.all[1].message
