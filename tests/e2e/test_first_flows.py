"""The first hour: what newcomers do with `kubectl` and `manta`, and the words that they meet.

Commands are typed as a person would, in a shell, with `manta dev` beside it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tests.e2e.processes import KUBECTL, MANTA, ROOT, manta_dev, needs_kubectl, until

pytestmark = [needs_kubectl, pytest.mark.slow, pytest.mark.timeout(400)]


@dataclass
class Shell:
    """A terminal with KUBECONFIG, `manta` and `kubectl`."""

    kubeconfig: Path

    def run(self, line: str) -> tuple[str, int]:
        """What a line prints, with single spaces, and its exit status."""
        names = f'manta() {{ {shlex.join(MANTA)} "$@"; }}; kubectl() {{ {KUBECTL} "$@"; }}'
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {names}; {line}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            cwd=ROOT,
            check=False,
            env=os.environ
            | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent)},
        )
        assert "Traceback" not in done.stdout, done.stdout
        return re.sub(" +", " ", done.stdout), done.returncode

    def __call__(self, line: str, *words: str, status: int = 0) -> str:
        """Run a line, which must end with this status and print these words."""
        printed, ended = self.run(line)
        missing = [each for each in words if each not in printed]
        assert not missing, f"$ {line}\n{printed}\nlacks {missing}"
        assert ended == status, f"$ {line}\n{printed}\nended with {ended}"
        return printed

    def soon(self, line: str, *words: str) -> str:
        """Run a line until it prints these words."""
        printed = ""

        def reached() -> bool:
            nonlocal printed
            printed, _ = self.run(line)
            return all(each in printed for each in words)

        until(reached, why=lambda: f"$ {line}\n{printed}\nlacks one of {words}")
        return printed


@pytest.fixture(scope="module")
def sh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with manta_dev(tmp_path_factory.mktemp("dev")) as (_, kubectl):
        yield Shell(kubectl.kubeconfig)


def example(name: str, new: str, edit: str = "") -> str:
    """A line that prints an example under another name, with edits as of sed."""
    old = {"raycluster": "example", "rolling": "rolling", "rayjob": "pi"}.get(name, name)
    return f"manta example {name} | sed -e 's/name: {old}$/name: {new}/' {edit}"


def cluster(sh: Shell, name: str, edit: str = "") -> None:
    sh(f"{example('raycluster', name, edit)} | kubectl apply -f -", f"{name} created")
    sh(f"kubectl wait --for=condition=Ready raycluster/{name} --timeout=90s", "condition met")


def first_worker(sh: Shell, name: str) -> str:
    selector = f"ray.io/cluster={name},ray.io/node-type=worker"
    path = "jsonpath={.items[0].metadata.name}"
    return sh(f"kubectl get pods -l {selector} -o '{path}'").strip()


def patch(kind: str, name: str, change: str) -> str:
    return f"kubectl patch {kind} {name} --type=merge -p '{change}'"


def test_an_example_becomes_ready_and_shows_what_it_is_made_of(sh: Shell):
    sh(
        "manta example",
        "raycluster A small Ray cluster",
        "rayjob A Ray job",
        "raycronjob A job every night",
    )
    cluster(sh, "hello")
    sh("kubectl get raycluster hello", "ready", "AllPodsReady")
    sh("kubectl get all", "pod/hello-head-", "pod/hello-workers-worker-", "service/hello-head-svc")
    sh("manta status raycluster/hello", "raycluster/hello: ready", "group workers: 2 of 2 ready")
    sh.soon("kubectl describe raycluster hello", "CreatedHeadPod", "CreatedWorkerPod")


def test_a_plan_tells_before_and_after_an_edit_what_it_does(sh: Shell):
    new = example("raycluster", "planned")
    sh(f"{new} | manta plan -f -", "RayCluster default/planned (new)", "create 2 Pods of group")
    cluster(sh, "planned")
    sh(f"{new} | manta plan -f -", "RayCluster default/planned: nothing to do")
    more = example("raycluster", "planned", "-e 's/replicas: 2/replicas: 3/'")
    changed = sh(f"{more} | manta plan -f -", "spec.workerGroupSpecs[workers].replicas: 2 -> 3")
    assert "+ create 1 Pod of group workers" in changed
    sh(f"{more} | kubectl apply -f -", "configured")
    sh.soon("kubectl get raycluster planned --no-headers", "planned 3 3 ")


def test_scaling_down_names_the_pod_that_went_and_why(sh: Shell):
    cluster(sh, "smaller")
    change = '[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1}]'
    sh(f"kubectl patch raycluster smaller --type=json -p '{change}'", "patched")
    told = sh.soon("kubectl events --for raycluster/smaller", "DeletedWorkerPod")
    words = told.partition("DeletedWorkerPod")[2].split()
    gone = next(word for word in words if word.startswith("smaller-workers-worker-"))
    sh(f"manta why pod/{gone}", "deleted: ", "because the group has more pods than it should")


def test_a_suspended_cluster_says_who_suspended_it_and_comes_back(sh: Shell):
    cluster(sh, "paused")
    sh(patch("raycluster", "paused", '{"spec": {"suspend": true}}'), "patched")
    wait = "kubectl wait raycluster/paused --timeout=90s --for=condition"
    sh(f"{wait}=RayClusterSuspended", "condition met")
    sh(
        "manta status",
        "suspended",
        "spec.suspend is true, so that there are no pods; set by kubectl",
    )
    sh("kubectl get pods -l ray.io/cluster=paused", "No resources found")
    sh(patch("raycluster", "paused", '{"spec": {"suspend": false}}'), "patched")
    sh(f"{wait}=Ready", "condition met")


def test_a_wrong_image_is_named_with_the_remedy_and_its_correction_helps(sh: Shell):
    """A worker's image is broken: the simulated node cannot pull it, as its annotation asks."""
    annotated = (
        "-e '/groupName/,$ s/^      template:$/      template:\\n        metadata:\\n"
        "          annotations: {sim.manta.dev\\/outcome: image-pull-error}/'"
    )
    broken = example("raycluster", "typo", annotated)
    sh(f"{broken} | kubectl apply -f -", "created")
    sh.soon("kubectl get raycluster typo", "ImagePullBackOff")
    said = "cannot pull the image of init container"
    sh(
        "manta status raycluster/typo",
        "typo: not ready",
        "cause: group workers",
        said,
        "correct the",
    )
    sh("manta why raycluster/typo", "now: not ready: group workers", said, "deleted: no")
    pod = first_worker(sh, "typo")
    sh(f"manta why pod/{pod}", "CreatedWorkerPod", "owner: raycluster/typo, not ready", said)
    sh(f"{example('raycluster', 'typo')} | kubectl apply -f -", "configured")
    sh("kubectl delete pod -l ray.io/cluster=typo,ray.io/node-type=worker", "deleted")
    sh("kubectl wait --for=condition=Ready raycluster/typo --timeout=90s", "condition met")


def test_a_pod_that_someone_deletes_is_replaced_and_the_deletion_is_no_decision_of_ours(sh: Shell):
    cluster(sh, "healed")
    pod = first_worker(sh, "healed")
    sh(f"kubectl delete pod {pod}", "deleted")
    sh.soon("kubectl get raycluster healed --no-headers", "healed 2 2 ")
    sh(f"manta why pod/{pod}", "CreatedWorkerPod", "nothing tells by whom; the audit log")


def test_more_processors_than_any_node_has_are_said_to_fit_nowhere(sh: Shell):
    huge = example("raycluster", "huge", """-e 's/cpu: .*/cpu: "900"/'""")
    sh(f"{huge} | kubectl apply -f -", "created")
    sh.soon("manta status raycluster/huge", "nodes are available", "Insufficient cpu", "head: ")


def test_a_missing_config_map_is_named_and_helps_once_it_is_there(sh: Shell):
    need = "-e 's/^\\( *\\)image: rayproject.*/&\\n\\1envFrom: [{configMapRef: {name: settings}}]/'"
    sh(f"{example('raycluster', 'needy', need)} | kubectl apply -f -", "created")
    said = "create the ConfigMap settings in namespace default"
    sh.soon("manta status", "raycluster/needy", said)
    sh("kubectl create configmap settings --from-literal=A=b", "created")
    sh("kubectl wait --for=condition=Ready raycluster/needy --timeout=90s", "condition met")


def test_a_deleted_cluster_takes_its_pods_with_it(sh: Shell):
    cluster(sh, "short")
    pod = first_worker(sh, "short")
    sh("kubectl delete raycluster short --timeout=90s", 'raycluster.ray.io "short" deleted')
    sh.soon("kubectl get pods,services -l ray.io/cluster=short", "No resources found")
    sh(
        f"manta why pod/{pod}",
        "deleted: by the garbage collector",
        "raycluster/short, which is gone",
    )
    sh("manta status raycluster/short", "raycluster/short does not exist in namespace", status=1)


def test_the_job_of_the_example_fails_is_retried_and_completes(sh: Shell):
    sh("manta example rayjob | manta plan -f -", "RayJob default/pi (new)")
    sh("manta example rayjob | kubectl apply -f -", "rayjob.ray.io/pi created")
    sh.soon("manta status rayjob/pi", "attempt 1 of 2 failed", "fresh cluster")
    sh.soon("kubectl get rayjob pi", "SUCCEEDED", "Complete")
    attempts = "kubectl get rayjob pi -o 'jsonpath={.status.attempts[*].result}'"
    assert sh(attempts).split() == ["Failed", "Succeeded"]
    sh.soon("kubectl events --for rayjob/pi", "RetryingRayJob")


def test_a_job_can_be_suspended_resumed_and_deleted(sh: Shell):
    endless = example("rayjob", "long", "-e 's/job: FAILED, SUCCEEDED/job: RUNNING/'")
    sh(f"{endless} | kubectl apply -f -", "rayjob.ray.io/long created")
    sh.soon("kubectl get rayjob long", "Running")
    sh(patch("rayjob", "long", '{"spec": {"suspend": true}}'), "patched")
    sh.soon("kubectl get rayjob long", "Suspended")
    sh(patch("rayjob", "long", '{"spec": {"suspend": false}}'), "patched")
    sh.soon("kubectl get rayjob long", "RUNNING")
    sh("kubectl delete rayjob long --timeout=90s", "deleted")
    sh.soon("kubectl get rayclusters -l ray.io/originated-from-cr-name=long", "No resources found")


def test_a_service_serves_its_applications_and_an_edit_is_explained(sh: Shell):
    sh("manta example rayservice | kubectl apply -f -", "rayservice.ray.io/greetings created")
    sh("kubectl wait --for=condition=Ready rayservice/greetings --timeout=90s", "condition met")
    sh("manta status rayservice/greetings", "greetings: ready", "raycluster/greetings-")
    sh("kubectl get services", "greetings-serve-svc", "greetings-head-svc")
    image = "manta example rayservice | sed 's/2.60.0/2.61.0/'"
    sh(f"{image} | manta plan -f -", "RayService default/greetings: ", "create RayCluster")


def test_a_nightly_job_starts_runs_and_can_be_stopped(sh: Shell):
    sh("manta example raycronjob | kubectl apply -f -", "raycronjob.ray.io/nightly created")
    sh.soon("manta status raycronjob/nightly", "nightly: scheduled")
    sh(patch("raycronjob", "nightly", '{"spec": {"suspend": true}}'), "patched")
    sh.soon("manta status raycronjobs", "suspended")


def test_a_rolling_update_is_followed_listed_and_undone(sh: Shell):
    smaller = "manta example rolling | sed 's/replicas: 3/replicas: 1/'"
    sh(f"{smaller} | kubectl apply -f -", "raycluster.ray.io/rolling created")
    sh("kubectl wait --for=condition=Ready raycluster/rolling --timeout=90s", "condition met")
    edited = f"{smaller} | sed 's/version: v1/version: v2/'"
    sh(f"{edited} | manta plan -f -", "v1", "v2", "RayCluster default/rolling")
    sh(f"{edited} | kubectl apply -f -", "configured")
    sh("manta rollout status raycluster/rolling", 'raycluster "rolling" successfully rolled out')
    listed = sh("manta rollout history raycluster/rolling", "REVISION", "rayproject/ray")
    assert len(listed.splitlines()) == 4
    sh("manta rollout pause raycluster/rolling", "paused")
    sh("manta rollout resume raycluster/rolling", "resumed")
    sh("manta rollout undo raycluster/rolling", "rolled back to revision 1")
    assert "v1" in sh("kubectl get raycluster rolling -o yaml | grep example.dev/version:")


def test_a_cluster_without_a_strategy_is_told_how_to_get_rolling_updates(sh: Shell):
    cluster(sh, "plain")
    said = "spec.upgradeStrategy.type is not set, so that there is no rolling update; set it"
    sh("manta rollout status raycluster/plain", said, status=1)


def test_status_is_data_for_programs(sh: Shell):
    cluster(sh, "data")
    found = msgspec.json.decode(sh("manta status raycluster/data -o json"))
    assert found["object"]["state"] == "ready"
    assert [each["name"] for each in found["object"]["groups"]] == ["headgroup", "workers"]
    listed = msgspec.json.decode(sh("manta status -A -o json"))
    assert {"default"} <= {each["namespace"] for each in listed["objects"]}


def test_status_and_why_help_with_names_that_are_wrong(sh: Shell):
    cluster(sh, "right")
    sh("manta status rigth", "an object is raycluster/rigth", status=2)
    sh("manta status raycluster/rigth", "does not exist", "did you mean right?", status=1)
    sh("manta status rayclutser/right", "did you mean raycluster?", status=2)
    sh("manta why right", "write pod/NAME, for example pod/right", status=2)
    sh("manta why pod/nothing", "does not exist in namespace default", "kept for an hour", status=1)
    sh("manta status -n elsewhere", "there is none in namespace elsewhere; -A looks into all")


def test_commands_and_options_with_a_wrong_letter_are_corrected(sh: Shell):
    sh("manta statsu", "there is no command statsu; did you mean status?", status=2)
    sh("manta status --al-namespaces", "did you mean --all-namespaces?", status=2)
    sh("manta example rayjbo", "did you mean rayjob?", status=2)
    sh("manta plan", "one of the arguments -f/--file --all is required", status=2)
    sh("manta debug --port 1", "Start the operator with --debug-port=1", "port-forward", status=1)


def test_a_namespace_of_ones_own_can_be_used_and_taken_away(sh: Shell):
    sh("kubectl create namespace team", "created")
    sh("manta example raycluster | kubectl apply -n team -f -", "created")
    wait = "kubectl wait -n team --for=condition=Ready raycluster/example --timeout=90s"
    sh(wait, "condition met")
    sh("manta status -A", "NAMESPACE", "team raycluster/example ")
    sh("kubectl delete namespace team --timeout=90s", "deleted")
    assert "team" not in sh("manta status -A")


def test_fields_are_explained_where_they_are_written(sh: Shell):
    sh("kubectl explain raycluster.spec.suspend", "FIELD: suspend <boolean>", "resumes the")
    sh("kubectl explain rayjob.spec.backoffLimit", "FIELD: backoffLimit <integer>")
    sh("kubectl explain raycluster.spec.replicas", "does not exist", status=1)
