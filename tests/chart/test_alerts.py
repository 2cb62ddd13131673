"""The alerts of the chart: what they are made of, when they fire, and that each is explained."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.chart.helm import CHART, ROOT, needs_helm, only, rendered
from tests.chart.prometheus import (
    JOB,
    NAMESPACE,
    PROMTOOL,
    alert_groups,
    alerts,
    needs_promtool,
    unknown_in,
)

pytestmark = pytest.mark.real_time

OPERATOR = {"job": JOB, "namespace": NAMESPACE}
OBJECT = {"job": JOB, "namespace": "team", "name": "a"}
UID = OBJECT | {"uid": "u"}
HOURS = "2h"


class Case(NamedTuple):
    """When an alert fires, and when it does not.

    Attributes:
        fires: series with which it fires at the end of two hours, in promtool's notation; one value
            a minute.
        quiet: series with which it does not.
        labels: of the alert that fires, besides its severity.
    """

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str]


def series(metric: str, labels: dict[str, str], /, **more: str) -> str:
    return f"{metric}{{{','.join(f'{key}={value!r}' for key, value in (labels | more).items())}}}"


def gauge(
    metric: str, /, *, bad: str, good: str, of: dict[str, str] | None = None, **labels: str
) -> tuple[dict[str, str], dict[str, str]]:
    """A series that is bad all the time, and one that is bad for the first minutes only."""
    of = OPERATOR if of is None else of
    named = series(metric, of, **labels)
    return {named: f"{bad}x120"}, {named: f"{bad}x4 {good}x120"}


def waits(metric: str, /, *, late: bool, **labels: str) -> dict[str, str]:
    """A histogram, half of whose new observations are above 100 s, or none above 1 s."""
    below = "0+30x120" if late else "0+60x120"
    bounds = {"0.1": below, "1.0": below, "10.0": below, "100.0": below}
    buckets = bounds | {"1000.0": "0+60x120", "+Inf": "0+60x120"}
    return {series(metric, OPERATOR, **labels, le=le): values for le, values in buckets.items()}


KIND = {"controller": "rayjob-controller"}
BY_CONTROLLER = OPERATOR | KIND
ERRORS = "controller_runtime_reconcile_errors_total"
TIMEOUTS = "controller_runtime_reconcile_timeouts_total"
RESTARTS = "informer_watch_restarts_total"
RECONCILES = series("controller_runtime_reconcile_total", BY_CONTROLLER, result="success")
REQUESTS = "rest_client_requests_total"
PODS = {"resource": "pods"}
DEADLINE = {"reason": "ProgressDeadlineExceeded"}


def requests(code: str) -> dict[str, str]:
    """Sixty requests a minute, of which thirty are answered with that code."""
    return {
        series(REQUESTS, OPERATOR, code="200", method="POST", host="h"): "0+30x120",
        series(REQUESTS, OPERATOR, code=code, method="POST", host="h"): "0+30x120",
    }


def fleet(ready: str) -> dict[str, str]:
    return {
        series("manta_fleet_desired_replicas", UID): "3x120",
        series("manta_fleet_ready_replicas", UID): ready,
    }


def dashboards(failing: str, actors: str) -> dict[str, str]:
    return {
        series("manta_dashboard_failing", OPERATOR): f"{failing}x120",
        series("manta_dashboard_actors", OPERATOR): f"{actors}x120",
    }


UP = series("manta_build_info", OPERATOR, version="1", python="3")
CASES: dict[str, Case] = {
    "MantaDown": Case({UP: "1x60 _x60"}, {UP: "1x60 _x5 1x60"}, OPERATOR),
    "MantaNoLeader": Case(
        *gauge("leader_election_master_status", bad="0", good="1", name="l"), OPERATOR
    ),
    "MantaCachesNotSynced": Case(
        *gauge("informer_synced", bad="0", good="1", **PODS), OPERATOR | PODS
    ),
    "MantaWatchSilent": Case(
        {series(RESTARTS, OPERATOR, cause="silent", **PODS): "1x60 2+0.2x60"},
        {
            series(RESTARTS, OPERATOR, cause="silent", **PODS): "1x60 2x60",
            series(RESTARTS, OPERATOR, cause="ended", **PODS): "0+1x120",
        },
        OPERATOR | PODS,
    ),
    "MantaOtherOperator": Case(
        *gauge("manta_other_operators", bad="1", good="0", kind="kuberay"),
        OPERATOR | {"kind": "kuberay"},
    ),
    "MantaReconcileErrors": Case(
        {series(ERRORS, BY_CONTROLLER): "0+20x120", RECONCILES: "0+60x120"},
        {series(ERRORS, BY_CONTROLLER): "0+10x120", RECONCILES: "0+60x120"},
        BY_CONTROLLER,
    ),
    "MantaReconcilePanics": Case(
        {series("controller_runtime_reconcile_panics_total", BY_CONTROLLER): "0x90 1x30"},
        {series("controller_runtime_reconcile_panics_total", BY_CONTROLLER): "0x10 1x110"},
        BY_CONTROLLER,
    ),
    "MantaReconcileStuck": Case(
        {series(TIMEOUTS, BY_CONTROLLER): "0x60 1+0.2x60"},
        {series(TIMEOUTS, BY_CONTROLLER): "0x30 1x90"},
        BY_CONTROLLER,
    ),
    "MantaQueueWaits": Case(
        waits("workqueue_queue_duration_seconds_bucket", late=True, **KIND),
        waits("workqueue_queue_duration_seconds_bucket", late=False, **KIND),
        BY_CONTROLLER,
    ),
    "MantaWritesUnconfirmed": Case(
        *gauge("manta_expectations_oldest_seconds", bad="601", good="1"), OPERATOR
    ),
    "MantaApiServerErrors": Case(requests("503"), requests("404"), OPERATOR),
    "MantaRequestsForbidden": Case(requests("403"), requests("404"), OPERATOR | {"method": "POST"}),
    "MantaObjectsUnreadable": Case(
        *gauge("informer_quarantined_objects", bad="2", good="0", **PODS), OPERATOR | PODS
    ),
    "MantaEventLoopBlocked": Case(
        waits("manta_event_loop_lag_seconds_bucket", late=True),
        waits("manta_event_loop_lag_seconds_bucket", late=False),
        OPERATOR,
    ),
    "MantaDashboardsUnreachable": Case(dashboards("2", "3"), dashboards("0", "0"), OPERATOR),
    "MantaFeatureGateWithoutEffect": Case(
        *gauge("manta_feature_gate_without_effect", bad="1", good="0", name="g"),
        OPERATOR | {"name": "g"},
    ),
    "RayClusterNotReady": Case(
        # another reason does not begin the half hour anew
        {
            series("manta_cluster_not_ready", UID, reason="One"): "1x100 _x20",
            series("manta_cluster_not_ready", UID, reason="Other"): "_x100 1x20",
        },
        {series("manta_cluster_not_ready", UID, reason="Suspended"): "1x120"},
        OBJECT,
    ),
    "RayClusterGPUsUnused": Case(
        {series("manta_cluster_unused_gpus", UID, owner_kind="None"): "4x120"},
        {series("manta_cluster_unused_gpus", UID, owner_kind="None"): "0x120"},
        OBJECT,
    ),
    "RayClusterUpgradeStuck": Case(
        {
            # another reason does not begin the ten minutes anew
            series("manta_upgrade_in_progress", UID, **DEADLINE): "1x111 stale",
            series("manta_upgrade_in_progress", UID, reason="RayDoesNotAnswer"): "_x112 1x3 stale",
            series("manta_upgrade_in_progress", UID, reason="IncompatibleVersions"): "_x116 1x4",
        },
        {
            series("manta_upgrade_in_progress", UID, reason="Rolling"): "1x120",
            series("manta_upgrade_in_progress", UID, reason="Paused"): "1x120",
        },
        OBJECT,
    ),
    "RayClusterFleetUpgradeStuck": Case(
        {series("manta_fleet_upgrade", UID, **DEADLINE): "1x120"},
        {series("manta_fleet_upgrade", UID, reason="Rolling"): "1x120"},
        OBJECT,
    ),
    "RayClusterFleetNotReady": Case(fleet("2x120"), fleet("2x100 3x20"), OBJECT),
    "RayJobNotStarted": Case(
        {
            series("kuberay_job_deployment_status", UID, deployment_status="Initializing"): "1x99",
            series("kuberay_job_deployment_status", UID, deployment_status="Waiting"): "_x99 1x21",
        },
        {series("kuberay_job_deployment_status", UID, deployment_status="Running"): "1x120"},
        OBJECT,
    ),
    "RayJobDisrupted": Case(
        {
            series("manta_job_disrupted_attempts", UID): "3x120",
            series("kuberay_job_deployment_status", UID, deployment_status="Running"): "1x120",
        },
        {
            series("manta_job_disrupted_attempts", UID): "3x120",
            series("kuberay_job_deployment_status", UID, deployment_status="Complete"): "1x120",
        },
        OBJECT,
    ),
    "RayServiceNotReady": Case(
        *gauge("manta_service_state", of=UID, bad="1", good="_", state="not_ready"), OBJECT
    ),
    "RayServiceUpgradeStuck": Case(
        *gauge("manta_service_upgrade_seconds", of=UID, bad="3601", good="_"), OBJECT
    ),
}
ALERTS = alerts()


def test_every_alert_has_a_case():
    assert list(CASES) == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_asks_for_metrics_and_labels_that_the_operator_has(name: str):
    assert unknown_in(ALERTS[name]["expr"]) == set()


def test_what_the_operator_does_not_have_is_found():
    assert unknown_in("rate(rest_client_request_total{code='200'}[5m])") == {
        "rest_client_request_total",
        "rest_client_request_total{code}",
    }
    assert unknown_in("sum by (job, verb) (workqueue_depth{resource='a'})") == {
        "verb",
        "workqueue_depth{resource}",
    }
    assert unknown_in("manta_no_such_metric > 0") == {"manta_no_such_metric"}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_names_only_labels_that_it_has(name: str):
    rule = ALERTS[name]
    named = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
    assert set(named) <= set(CASES[name].labels)
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_every_alert_has_a_paragraph_in_the_runbook_under_its_name():
    page = (ROOT / "docs" / "operations.md").read_text()
    paragraphs = re.findall(r"^### (\w+)\n\n(\w+)\. .+", page, re.MULTILINE)
    severities = {name: rule["labels"]["severity"] for name, rule in ALERTS.items()}
    assert {name: severity.lower() for name, severity in paragraphs} == severities


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_does_not_fire_for_each_replica(name: str):
    """All of them know of every object; `instance` and `pod` would tell them apart."""
    series = re.findall(r"(\w+)\{", ALERTS[name]["expr"])
    together = re.findall(r"\b(?:max|min|sum) by \(|\babsent\(", ALERTS[name]["expr"])
    assert len(together) == len(series)


@pytest.mark.slow
@needs_promtool
def test_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path):
    groups = [
        group | {"rules": [rule | {"annotations": {}} for rule in group["rules"]]}
        for group in alert_groups()
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    expected = {
        name: [{"exp_labels": case.labels | {"severity": ALERTS[name]["labels"]["severity"]}}]
        for name, case in CASES.items()
    }
    tests = [
        after_two_hours([case.fires for case in CASES.values()], expected),
        after_two_hours([case.quiet for case in CASES.values()], {name: [] for name in CASES}),
    ]
    suite = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(suite, width=1000))
    promtool("test", "rules", str(tmp_path / "tests.yaml"))


def after_two_hours(given: list[dict[str, str]], expected: dict[str, list[Any]]) -> dict[str, Any]:
    """A test of promtool with all of these series at once, which are to have one value each."""
    values: dict[str, str] = {}
    for each in given:
        assert all(values.get(name, value) == value for name, value in each.items())
        values |= each
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": value} for name, value in values.items()],
        "alert_rule_test": [
            {"alertname": name, "eval_time": HOURS, "exp_alerts": alerts}
            for name, alerts in expected.items()
        ],
    }


@pytest.mark.slow
@needs_helm
@needs_promtool
def test_the_rendered_rules_pass_promtool_and_link_to_their_runbook(tmp_path: Path):
    url = "metrics.prometheusRule.runbookUrl=https://wiki.example/manta"
    groups = rules_of(url, "fullnameOverride=manta-operator")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    promtool("check", "rules", str(tmp_path / "rules.yaml"))
    shown = [rule for group in groups for rule in group["rules"]]
    wanted = [rule for group in alert_groups() for rule in group["rules"]]
    for rule, plain in zip(shown, wanted, strict=True):
        runbook = f"https://wiki.example/manta#{rule['alert'].lower()}"
        assert rule == plain | {"annotations": plain["annotations"] | {"runbook_url": runbook}}


@pytest.mark.slow
@needs_helm
def test_alerts_can_be_left_out_and_labelled():
    prefix = "metrics.prometheusRule."
    values = (
        "disabled={MantaDown,RayJobNotStarted}",
        "ruleLabels.team=a",
        "ruleLabels.severity=page",
    )
    groups = rules_of(*(prefix + value for value in values))
    shown = {rule["alert"]: rule["labels"] for group in groups for rule in group["rules"]}
    assert set(ALERTS) - set(shown) == {"MantaDown", "RayJobNotStarted"}
    assert all(labels == {"team": "a", "severity": "page"} for labels in shown.values())


def rules_of(*values: str) -> list[dict[str, Any]]:
    objects = rendered(CHART, "metrics.prometheusRule.enabled=true", *values)
    return only("PrometheusRule", objects)["spec"]["groups"]


def promtool(*arguments: str) -> None:
    assert PROMTOOL
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
