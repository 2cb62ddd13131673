"""Whether a cluster serves what is stored on it."""

from __future__ import annotations

import pytest

from controller.ray.dashboard.serve import (
    ServeApplication,
    ServeDeployment,
    ServeState,
    serve_state,
)
from controller.ray.service.identity import StoredConfig
from controller.ray.service.serve import Readiness, judge
from devcluster.simulated_serve import scaled
from tests.ray.dashboard.recorded import recorded

HELLO = {
    "name": "hello",
    "route_prefix": "/",
    "import_path": "hello_app:app",
    "deployments": [{"name": "Hello", "num_replicas": 4}],
}
CONFIG = StoredConfig("hash", {"applications": [HELLO]})


def described(name: str, capacity: int | None = None) -> Readiness:
    return judge(serve_state(recorded(name)), CONFIG, capacity)


def test_a_running_application_serves():
    assert described("serve-get-running") == Readiness(serves=True, ready=100, deployed=True)


@pytest.mark.parametrize(("capacity", "ready"), [(100, 100), (50, 50), (20, 20), (0, 0)])
def test_what_is_ready_follows_the_capacity(capacity: int, ready: int):
    found = described(f"serve-get-target-capacity-{capacity}", capacity)
    assert (found.ready, found.deployed) == (ready, True)


@pytest.mark.parametrize("name", ["serve-get-never-deployed", "serve-get-no-applications"])
def test_an_empty_list_is_never_ready(name: str):
    found = described(name)
    assert (found.serves, found.ready) == (False, 0)
    assert found.first_cause == "Ray does not list application hello"


def test_an_application_that_deploys_is_named():
    found = described("serve-get-deploying")
    assert not found.serves
    assert found.first_cause == "application hello is DEPLOYING"


def test_the_deployment_that_is_not_healthy_is_named():
    half = ServeDeployment("UPSCALING", target=4, running=2)
    app = ServeApplication("DEPLOYING", deployments={"Hello": half}, config=HELLO)
    assert judge(ServeState({"hello": app}), CONFIG, None).first_cause == (
        "application hello is DEPLOYING: deployment Hello is UPSCALING, 2 of 4 replicas"
    )


def test_a_failure_is_named_before_what_takes_time():
    two = StoredConfig("hash", {"applications": [HELLO, {**HELLO, "name": "other"}]})
    state = ServeState(
        {
            "hello": ServeApplication("DEPLOYING"),
            "other": ServeApplication("DEPLOY_FAILED", "ImportError: no module"),
        }
    )
    cause = judge(state, two, None).first_cause
    assert cause.startswith("application other is DEPLOY_FAILED: ImportError: no module; correct")


def test_the_deployment_with_the_least_counts():
    app = ServeApplication(
        "RUNNING",
        deployments={
            "A": ServeDeployment("HEALTHY", target=4, running=4),
            "B": ServeDeployment("UPSCALING", target=4, running=1),
            "C": ServeDeployment("HEALTHY", target=0, running=0),
        },
        config=HELLO,
    )
    assert judge(ServeState({"hello": app}, 40.0), CONFIG, 40).ready == 15


@pytest.mark.parametrize("replicas", range(1, 12))
@pytest.mark.parametrize("step", [5, 10, 20, 30, 50])
def test_a_rising_capacity_leaves_ready_what_the_one_before_needed(replicas: int, step: int):
    config = {**HELLO, "deployments": [{"name": "Hello", "num_replicas": replicas}]}
    for before in range(step, 100, step):
        capacity = min(100, before + step)
        deployment = ServeDeployment(
            "UPSCALING", target=scaled(replicas, capacity), running=scaled(replicas, before)
        )
        app = ServeApplication("DEPLOYING", deployments={"Hello": deployment}, config=config)
        stored = StoredConfig("hash", {"applications": [config]})
        found = judge(ServeState({"hello": app}, float(capacity)), stored, capacity)
        assert before <= found.ready <= capacity


@pytest.mark.parametrize(
    "deployments",
    [7, "Hello", {"Hello": 1}, [7], [None], [{"name": "Hello", "num_replicas": -3}]],
    ids=str,
)
def test_malformed_deployments_that_ray_is_about_to_refuse_change_nothing(deployments: object):
    stored = StoredConfig("hash", {"applications": [{**HELLO, "deployments": deployments}]})
    deployment = ServeDeployment("UPSCALING", target=4, running=2)
    app = ServeApplication("RUNNING", deployments={"Hello": deployment}, config=HELLO)
    found = judge(ServeState({"hello": app}), stored, None)
    assert (found.ready, found.deployed) == (62, False)


def test_the_exception_of_a_deployment_that_failed_is_named():
    error = "The deployment failed to start 3 times.\nTraceback:\n  File x\nTypeError: argument 'y'"
    app = ServeApplication(
        "DEPLOY_FAILED",
        "Failed to update the deployments ['Model'].",
        deployments={
            "Ingress": ServeDeployment("UPDATING", target=1),
            "Model": ServeDeployment("DEPLOY_FAILED", error, target=1),
        },
    )
    assert judge(ServeState({"hello": app}), CONFIG, None).first_cause.startswith(
        "application hello is DEPLOY_FAILED: deployment Model is DEPLOY_FAILED: "
        "TypeError: argument 'y'; "
    )


def test_what_an_application_says_of_itself_stands_before_a_deployment_that_failed():
    app = ServeApplication(
        "DEPLOY_FAILED",
        "Deploying app 'hello' failed with exception:\nImportError: no module x",
        deployments={"Model": ServeDeployment("UNHEALTHY", "no answer to the health check")},
    )
    assert judge(ServeState({"hello": app}), CONFIG, None).first_cause.startswith(
        "application hello is DEPLOY_FAILED: Deploying app 'hello' failed with exception: "
        "ImportError: no module x: deployment Model is UNHEALTHY: no answer to the health check; "
    )
