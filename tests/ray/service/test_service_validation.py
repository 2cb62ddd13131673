"""The table of things that can be wrong with a RayService, each found where it is."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.validation import Problem
from controller.ray.api import RayService
from controller.ray.service.observation import read_goal
from tests.integration.rayservices import service_manifest
from tests.ray.job.rayjobs import changed
from tests.ray.service.scenes import ACTIVE, NEW, OLD, PENDING, SETTINGS, STEPWISE, Scene, edition

CLUSTER = "spec.rayClusterConfig"
OPTIONS = "spec.upgradeStrategy.clusterUpgradeOptions"
TIMEOUT = "ray.io/initializing-timeout"
APPLICATION = "applications: [{import_path: a:b, name: x}"
DENSE = Random(1).randbytes(150 * 1024).hex()
"""A text that is too large for an annotation even compressed."""


def service(changes: dict[str, Any], *, stepwise: bool = False) -> RayService:
    manifest = service_manifest()
    if stepwise:
        manifest["spec"]["upgradeStrategy"] = STEPWISE
        manifest["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    return msgspec.convert(changed(manifest, changes), RayService)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("metadata.name", "a" * 48, "47"),
        ("metadata.name", "1-svc", "letter"),
        ("spec", {}, "missing required field `rayClusterConfig`"),
        ("spec.suspend", "no", "Expected `bool`"),
        ("spec.rayClusterDeletionDelaySeconds", -1, "must not be negative"),
        ("spec.upgradeStrategy.type", "Rolling", "NewCluster, NewClusterWithIncrementalUpgrade"),
        ("spec.serveService.spec.ports", "x", "Expected `array`"),
        ("spec.serveService.metadata.name", "svc-head-svc", "the service of the head"),
        (f"{CLUSTER}.headGroupSpec.headService.metadata.name", "mine", "must be left out"),
        (f"{CLUSTER}.authOptions.enableK8sTokenAuth", True, "authOptions.mode token"),
        (f"{CLUSTER}.headGroupSpec.template.spec.containers", [], "container"),
        (
            f"{CLUSTER}.headGroupSpec.template.spec.containers[0].ports",
            [{"name": "dashboard", "containerPort": 8265}],
            "add one, such as 8000",
        ),
        ("spec.serveConfigV2", "", "applications"),
        ("spec.serveConfigV2", "applications: []", "at least one application"),
        ("spec.serveConfigV2", "import_path: a:b", "into a list"),
        ("spec.serveConfigV2", "applications: [{name: x}]", "import_path"),
        ("spec.serveConfigV2", "applications: [{import_path: a:b, name: 1}]", "name that is text"),
        ("spec.serveConfigV2", f"{APPLICATION}]\ntarget_capacity: 5", "must not set"),
        (
            "spec.serveConfigV2",
            f"{APPLICATION}, {{import_path: a:b, name: x}}]",
            "give each its own",
        ),
        (
            "spec.serveConfigV2",
            f"{APPLICATION}, {{import_path: a:b, name: z}}]",
            "the route_prefix '/'",
        ),
        ("spec.serveConfigV2", "applications: [", "YAML"),
        ("spec.serveConfigV2", "[" * 2000, ""),
        pytest.param(
            "spec.serveConfigV2",
            f"applications: [{{import_path: a:b, name: x, args: {{text: {DENSE}}}}}]",
            "move data from user_config",
            id="too large",
        ),
        ("spec.serveConfigV2", "a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_path_and_a_remedy(field: str, value: Any, words: str):
    problem = read_goal(service({field: value}), SETTINGS)
    assert isinstance(problem, Problem), problem
    assert problem.field == field, problem
    assert words in problem.message, problem
    of_metadata = field.startswith("metadata")
    expected = "InvalidRayServiceMetadata" if of_metadata else "InvalidRayServiceSpec"
    assert problem.reason == expected


@pytest.mark.parametrize("value", ["x", "0", "-1", "-1s", "0s"])
def test_a_time_to_initialize_is_positive(value: str):
    manifest = service_manifest()
    manifest["metadata"]["annotations"] = {TIMEOUT: value}
    problem = read_goal(msgspec.convert(manifest, RayService), SETTINGS)
    assert isinstance(problem, Problem)
    assert problem.field == f"metadata.annotations[{TIMEOUT}]"
    assert problem.reason == "InvalidRayServiceMetadata"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (f"{CLUSTER}.enableInTreeAutoscaling", False, "must be true"),
        (OPTIONS, None, "must be set"),
        (f"{OPTIONS}.maxSurgePercent", 0, "from 1 to 100"),
        (f"{OPTIONS}.maxSurgePercent", 101, "from 1 to 100"),
        (f"{OPTIONS}.stepSizePercent", None, "from 1 to 100"),
        (f"{OPTIONS}.stepSizePercent", 0, "from 1 to 100"),
        (f"{OPTIONS}.stepSizePercent", 30, "more than maxSurgePercent"),
        (f"{OPTIONS}.intervalSeconds", 0, "must be positive"),
        (f"{OPTIONS}.gatewayClassName", None, "GatewayClass"),
    ],
)
def test_an_incremental_upgrade_needs_its_options(field: str, value: Any, words: str):
    assert not isinstance(read_goal(service({}, stepwise=True), SETTINGS), Problem)
    wrong = msgspec.json.decode(msgspec.json.encode({field: value}))
    problem = read_goal(service(wrong, stepwise=True), SETTINGS)
    assert isinstance(problem, Problem), problem
    assert (problem.field, problem.reason) == (field, "InvalidRayServiceSpec")
    assert words in problem.message


ODD = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
FIELDS = (
    "rayClusterName",
    "targetCapacity",
    "trafficRoutedPercent",
    "lastTrafficMigratedTime",
    "applicationStatuses",
    "rayClusterStatus",
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(role=st.sampled_from([ACTIVE, PENDING]), field=st.sampled_from(("", *FIELDS)), odd=ODD)
def test_no_status_that_others_wrote_ends_a_plan(role: str, field: str, odd: Any):
    scene = Scene(edition(NEW, upgradeStrategy=STEPWISE))
    scene.has(ACTIVE, edition(OLD), targetCapacity=80, trafficRoutedPercent=80)
    scene.has(PENDING, edition(NEW), targetCapacity=20, trafficRoutedPercent=20)
    if field:
        scene.status[role][field] = odd
    else:
        scene.status[role] = odd
    scene.plan()


@pytest.mark.parametrize(("odd", "read"), [(-5, 0), (500, 100), ("50", 0), (True, 0), (None, 0)])
def test_a_malformed_share_counts_as_the_nearest_or_the_usual_one(odd: Any, read: int):
    written = service({})
    written = msgspec.structs.replace(written, status={PENDING: {"targetCapacity": odd}})
    assert status_of(written)[PENDING] == {"targetCapacity": read}
