"""Keys that Ray reads and does not know: named with the nearest known one, in every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.ray.api.ray_options import InvalidServeConfig, read_serve_config, unknown_words
from controller.ray.api.raycluster import RayCluster
from tests.ray.cluster.support import EXAMPLES
from tests.samples import SAMPLES

Json = dict[str, Any]
HEAD: Json = {"headGroupSpec": {"rayStartParams": {"num-cpu": "4", "dashbord-host": "0.0.0.0"}}}
GROUP: Json = {"workerGroupSpecs": [{"rayStartParams": {"block": "true", "num_gpus": "1"}}]}
IN_HEAD = [
    "headGroupSpec.rayStartParams[num-cpu] (did you mean num-cpus?)",
    "headGroupSpec.rayStartParams[dashbord-host] (did you mean dashboard-host?)",
]
SERVE = """
http_option: {port: 80}
applications:
- import_path: a:b
  routeprefix: /a
  runtime_env: {pips: [x], env_vars: {ANY: thing}}
  args: {any: thing}
  deployments:
  - name: d
    num_replica: 2
    user_config: {any: thing}
"""


def found(spec: Any) -> list[str]:
    return [str(each) for each in unknown_words(RayCluster(spec=spec))]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (HEAD, [f"spec.{each}" for each in IN_HEAD]),
        (GROUP, ["spec.workerGroupSpecs[0].rayStartParams[num_gpus] (did you mean num-gpus?)"]),
        ({"rayClusterSpec": HEAD}, [f"spec.rayClusterSpec.{each}" for each in IN_HEAD]),
        ({"rayClusterConfig": HEAD}, [f"spec.rayClusterConfig.{each}" for each in IN_HEAD]),
        ({"template": {"spec": HEAD}}, [f"spec.template.spec.{each}" for each in IN_HEAD]),
        ({"runtimeEnvYAML": "pips: [x]"}, ["spec.runtimeEnvYAML.pips (did you mean pip?)"]),
        (
            {"jobTemplate": {"runtimeEnvYAML": "workingdir: x\nzzz: 1"}},
            [
                "spec.jobTemplate.runtimeEnvYAML.workingdir (did you mean working_dir?)",
                "spec.jobTemplate.runtimeEnvYAML.zzz",
            ],
        ),
        (
            {"serveConfigV2": SERVE},
            [
                f"spec.serveConfigV2.{each}"
                for each in (
                    "http_option (did you mean http_options?)",
                    "applications[0].routeprefix (did you mean route_prefix?)",
                    "applications[0].runtime_env.pips (did you mean pip?)",
                    "applications[0].deployments[0].num_replica (did you mean num_replicas?)",
                )
            ],
        ),
    ],
)
def test_a_misspelt_key_is_named_with_its_path(spec: Json, named: list[str]):
    assert found(spec) == named


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {"headGroupSpec": [], "workerGroupSpecs": {"a": 1}, "template": 3, "jobTemplate": None},
        {"headGroupSpec": {"rayStartParams": None}, "runtimeEnvYAML": "[", "serveConfigV2": "- a"},
        {"runtimeEnvYAML": 3, "serveConfigV2": "applications: {deployments: 3}"},
    ],
)
def test_what_cannot_be_read_has_no_keys(spec: Any):
    assert found(spec) == []


def test_an_application_without_its_import_path_is_told_what_it_has_instead():
    with pytest.raises(InvalidServeConfig, match=r"import_path, such as .*; it has import_pth"):
        read_serve_config("applications: [{name: a, import_pth: 'x:y'}]")


FILES = [*sorted(EXAMPLES.glob("*.yaml")), *sorted(SAMPLES.glob("*.yaml"))]


def test_users_manifests_have_no_unknown_key():
    if not SAMPLES.is_dir():
        pytest.skip(f"SKIPPED, NOT PASSED: there are no samples at {SAMPLES}")
    assert {file.name: words for file in FILES if (words := _unknown(file))} == {}


def _unknown(file: Path) -> list[str]:
    documents = yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader)
    objects = [each for each in documents if each and "ray.io" in str(each.get("apiVersion"))]
    return [word for each in objects for word in found(each.get("spec"))]
