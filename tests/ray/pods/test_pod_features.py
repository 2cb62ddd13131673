"""Fault tolerance and authentication in pods: the rules that no golden file shows."""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.api.raycluster import AuthOptions, token_secret_name
from tests.ray.cluster.support import manifest
from tests.ray.pods.golden_pods import built_pods
from tests.ray.pods.test_builder import HASHES, head_of, pods_of, ray, value

Body = dict[str, Any]


def pods(annotations: dict[str, str] | None = None, **spec: Any) -> list[Body]:
    """The example's head and worker with these annotations and fields of its specification."""
    raw = manifest()
    raw["metadata"]["annotations"] = annotations or {}
    raw["spec"] |= {"rayVersion": "2.55.0"} | spec
    return list(built_pods(raw))


def container(pod: Body, name: str = "") -> Body:
    everything = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    return next(each for each in everything if not name or each["name"] == name)


def variables(body: Body) -> Body:
    return {entry["name"]: entry for entry in body["env"]}


def with_head_env(*entries: Body) -> Body:
    head = manifest()["spec"]["headGroupSpec"]
    head["template"]["spec"]["containers"][0]["env"] = list(entries)
    return head


def pre_stop(pod: Body) -> str:
    hook = container(pod).get("lifecycle", {}).get("preStop")
    return hook["exec"]["command"][-1] if hook else ""


@pytest.mark.parametrize(
    ("options", "grace", "waits"),
    [
        ({}, 30, 25),
        ({"terminationGracePeriodSeconds": 120}, 120, 115),
        ({"terminationGracePeriodSeconds": 120, "drainDeadlineSeconds": 60}, 120, 60),
        ({"terminationGracePeriodSeconds": 2}, 2, 1),
    ],
)
def test_a_worker_drains_before_its_end_and_a_head_only_has_the_time(
    options: Body, grace: int, waits: int
):
    head, worker = pods(gracefulTerminationOptions=options)
    assert head["spec"]["terminationGracePeriodSeconds"] == grace
    assert worker["spec"]["terminationGracePeriodSeconds"] == grace
    assert not pre_stop(head)
    assert f"--deadline-remaining-seconds {waits} " in pre_stop(worker)
    assert f"+ {waits})" in pre_stop(worker)


@pytest.mark.parametrize(
    "annotations",
    [{"ray.io/graceful-termination-enabled": "True"}, {"manta.dev/graceful-termination": "{}"}],
)
def test_an_annotation_asks_for_it_where_the_definition_drops_the_field(annotations: Body):
    _, worker = pods(annotations)
    assert pre_stop(worker)
    _, worker = pods(dict.fromkeys(annotations, ""))
    assert not pre_stop(worker)


def test_what_a_template_says_about_its_end_stays():
    groups = manifest()["spec"]["workerGroupSpecs"]
    own = {"preStop": {"exec": {"command": ["true"]}}, "postStart": {"exec": {"command": ["a"]}}}
    spec = groups[0]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 90
    spec["containers"][0]["lifecycle"] = own
    _, worker = pods(workerGroupSpecs=groups, gracefulTerminationOptions={})
    assert worker["spec"]["terminationGracePeriodSeconds"] == 90
    assert container(worker)["lifecycle"] == own
    del own["preStop"]
    _, worker = pods(workerGroupSpecs=groups, gracefulTerminationOptions={})
    assert list(container(worker)["lifecycle"]) == ["postStart", "preStop"]
    assert "+ 85)" in pre_stop(worker)


def test_a_password_of_the_legacy_way_that_has_its_own_variable_is_not_written_out():
    own = {"name": "REDIS_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "r", "key": "p"}}}
    group = with_head_env({"name": "RAY_REDIS_ADDRESS", "value": "r"}, own)
    group["rayStartParams"] = {"redis-password": "$REDIS_PASSWORD"}
    head, _ = pods({"ray.io/ft-enabled": "true"}, headGroupSpec=group)
    assert variables(container(head))["REDIS_PASSWORD"] == own


def test_a_claim_of_the_user_is_mounted_as_it_is_called():
    storage = {"claimName": "mine"}
    head, worker = pods(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": storage})
    volumes = {volume["name"]: volume for volume in head["spec"]["volumes"]}
    assert volumes["gcs-storage"]["persistentVolumeClaim"] == {"claimName": "mine"}
    assert "gcs-storage" not in {volume["name"] for volume in worker["spec"]["volumes"]}


def test_a_disabled_mode_gives_nobody_a_token():
    for pod in pods(authOptions={"mode": "disabled"}, enableInTreeAutoscaling=True):
        assert "RAY_AUTH" not in str(pod)


@pytest.mark.parametrize("mode", [{}, {"mode": "token"}, {"mode": None}], ids=str)
def test_authentication_without_a_mode_is_by_token(mode: Body):
    head, worker = pods(authOptions={"secretName": "mine", **mode}, enableInTreeAutoscaling=True)
    for body in (
        container(head),
        container(head, "autoscaler"),
        container(worker),
        container(worker, "wait-gcs-ready"),
    ):
        source = variables(body)["RAY_AUTH_TOKEN"]["valueFrom"]
        assert source == {"secretKeyRef": {"name": "mine", "key": "auth_token"}}


def test_a_token_of_the_users_own_stays():
    own = {"name": "RAY_AUTH_TOKEN", "value": "mine"}
    head, _ = pods(authOptions={"mode": "token"}, headGroupSpec=with_head_env(own))
    assert [e for e in container(head)["env"] if e["name"] == "RAY_AUTH_TOKEN"] == [own]


def test_a_token_volume_of_the_users_own_stays():
    group = with_head_env()
    spec = group["template"]["spec"]
    own = {"name": "ray-token", "secret": {"secretName": "mine"}}
    mount = {"name": "ray-token", "mountPath": "/mine"}
    spec["volumes"] = [own]
    spec["containers"][0]["volumeMounts"] = [mount]
    auth = {"mode": "token", "enableK8sTokenAuth": True}
    head, _ = pods(authOptions=auth, headGroupSpec=group)
    volumes = [each for each in head["spec"]["volumes"] if each["name"] == "ray-token"]
    mounts = [each for each in container(head)["volumeMounts"] if each["name"] == "ray-token"]
    assert (volumes, mounts) == ([own], [mount])


def test_the_name_of_the_secret_has_room_in_kuberays_limit():
    assert token_secret_name("a" + "0" * 52, AuthOptions()) == "r" + "0" * 49


def test_a_user_who_waits_for_the_head_in_an_own_way_does_so_and_has_the_token():
    raw = manifest()["spec"]["workerGroupSpecs"]
    raw[0]["template"]["spec"]["initContainers"] = [{"name": "wait-gcs-ready", "image": "mine"}]
    _, worker = pods(workerGroupSpecs=raw, authOptions={})
    (waiting,) = worker["spec"]["initContainers"]
    assert waiting["image"] == "mine"
    assert [entry["name"] for entry in waiting["env"]][-2:] == ["FQ_RAY_IP", "RAY_IP"]
    assert "RAY_AUTH_TOKEN" in variables(waiting)


def copy_number(index: str, count: str) -> dict[str, Any]:
    raw = manifest()
    raw["metadata"]["annotations"] = {
        "manta.dev/cluster-index": index,
        "manta.dev/cluster-count": count,
    }
    return raw


def hashes(raw: dict[str, Any]) -> list[dict[str, str]]:
    found = [pod["metadata"]["annotations"] for pod in pods_of(raw)]
    return [{key: each[key] for key in HASHES if key in each} for each in found]


def test_head_and_workers_know_their_copy_and_the_number_of_copies():
    for pod in pods_of(copy_number("2", "5")):
        assert value(ray(pod), "MANTA_CLUSTER_INDEX") == "2"
        assert value(ray(pod), "MANTA_CLUSTER_COUNT") == "5"


def test_neither_counts_for_the_hashes_so_that_a_changed_count_replaces_nothing():
    assert hashes(copy_number("2", "5")) == hashes(copy_number("0", "7")) == hashes(manifest())


def test_a_variable_of_the_user_is_kept():
    raw = copy_number("2", "5")
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "MANTA_CLUSTER_INDEX", "value": "mine"}]
    entries = [e for e in ray(head_of(raw))["env"] if e["name"] == "MANTA_CLUSTER_INDEX"]
    assert entries == container["env"]
