"""The hash of a Workspace, byte for byte Kaito's."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from controller.apimachinery.user_yaml import go_json
from controller.kaito.api.revisions import (
    is_revision_hash,
    kaito_writer,
    old_kaito_writer,
    revision_data,
    revision_hash,
)
from tests.kaito.support import tuning, workspace

FALCON = "c692b999495f9d29f9843e204de3f8d5971d637c9393c2f4cb1423572424afe8"
"""Published with its object in kaito-project/kaito#1315."""

FALCON_OBJECT = workspace(
    resource={"labelSelector": {"matchLabels": {"apps": "falcon-7b-instruct"}}},
    inference={
        "preset": {"name": "falcon-7b-instruct", "accessMode": "public", "presetOptions": {}}
    },
)
CONTAINER = {
    "name": "main",
    "image": "a&b",
    "command": ["sh", "-c", "a < b"],
    "resources": {"limits": {"memory": "1024Mi", "nvidia.com/gpu": 1, "cpu": "0.5"}},
    "ports": [{"containerPort": 80}],
    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
}
TEMPLATE = {
    "spec": {
        "volumes": [{"emptyDir": {"sizeLimit": "2048Mi"}, "name": "v"}],
        "hostNetwork": False,
        "containers": [CONTAINER],
        "unknown": 1,
    },
    "metadata": {"labels": {"b": "2", "a": "1"}},
}
WRITTEN = (
    '{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"volumes":[{"name":"v","emptyDir":'
    '{"sizeLimit":"2Gi"}}],"containers":[{"name":"main","image":"a\\u0026b","command":["sh","-c",'
    '"a \\u003c b"],"ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"500m",'
    '"memory":"1Gi","nvidia.com/gpu":"1"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"},'
    '"periodSeconds":5}}]}}'
)


def sha(*lines: str) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def test_the_published_hash_is_reproduced():
    assert revision_hash(FALCON_OBJECT) == FALCON
    assert is_revision_hash(FALCON_OBJECT, FALCON)
    assert not is_revision_hash(workspace(), FALCON)


def test_what_is_not_given_is_written_as_go_has_it():
    bare = workspace(
        resource={"count": None, "labelSelector": None}, inference={"preset": {"name": "phi-4"}}
    )
    assert revision_hash(bare) == sha(
        '{"instanceType":"Standard_NC24ads_A100_v4","labelSelector":null}',
        '{"preset":{"name":"phi-4","presetOptions":{}}}',
        "null",
    )


def test_all_fields_of_a_tuning_stand_in_gos_order():
    tuned = workspace(
        resource={"partition": {"count": 2, "mode": "accelerator"}, "preferredNodes": ["n"]},
        tuning=tuning(config="options", input={"volumeSource": {"hostPath": {"path": "/d"}}}),
    )
    assert revision_hash(tuned) == sha(
        '{"count":1,"instanceType":"Standard_NC24ads_A100_v4","labelSelector":{"matchLabels":'
        '{"apps":"phi"}},"preferredNodes":["n"],"partition":{"mode":"accelerator","count":2}}',
        "null",
        '{"preset":{"name":"phi-3-mini-128k-instruct","presetOptions":{}},"method":"qlora",'
        '"config":"options","input":{"volumeSource":{"hostPath":{"path":"/d"}}},"output":{"image":'
        '"example.com/result:1","imagePushSecret":"push"}}',
    )


def test_adapters_stand_in_gos_order():
    adapter = {"strength": "0.5", "source": {"image": "a/b", "name": "one", "urls": []}}
    served = workspace(inference={"adapters": [adapter], "preset": {"name": "phi-4"}})
    data = revision_data(served)["inference"]
    assert go_json(data, sort_keys=False) == (
        '{"preset":{"name":"phi-4","presetOptions":{}},"adapters":[{"source":{"name":"one",'
        '"image":"a/b"},"strength":"0.5"}]}'
    )


def test_a_template_without_metadata_has_an_empty_one():
    assert kaito_writer().write("PodTemplateSpec", {"spec": {"containers": None}}) == {
        "metadata": {},
        "spec": {"containers": None},
    }


def test_old_versions_wrote_an_empty_time_of_creation():
    written = old_kaito_writer().write("PodTemplateSpec", TEMPLATE)
    assert list(written["metadata"]) == ["creationTimestamp", "labels"]
    assert written["metadata"]["creationTimestamp"] is None
    served = workspace(inference={"template": TEMPLATE})
    resource = go_json(kaito_writer().write("ResourceSpec", served.resource), sort_keys=False)
    old = WRITTEN.replace('{"labels"', '{"creationTimestamp":null,"labels"', 1)
    new, before = (sha(resource, f'{{"template":{each}}}', "null") for each in (WRITTEN, old))
    assert new != before
    assert revision_hash(served) == new
    assert is_revision_hash(served, new)
    assert is_revision_hash(served, before)


@pytest.mark.parametrize(
    ("type_name", "value", "written"),
    [
        (
            "ResourceFieldSelector",
            {"resource": "limits.cpu"},
            '{"resource":"limits.cpu","divisor":"0"}',
        ),
        ("TCPSocketAction", {}, '{"port":0}'),
        ("SecretKeySelector", {"key": "k", "name": "n"}, '{"name":"n","key":"k"}'),
        ("EnvVar", {"name": "a", "value": ""}, '{"name":"a"}'),
        ("SecurityContext", {"privileged": False}, '{"privileged":false}'),
        ("LabelSelector", {"matchLabels": {}}, "{}"),
        ("Volume", {"name": "v", "emptyDir": {}}, '{"name":"v","emptyDir":{}}'),
        ("Toleration", {"tolerationSeconds": 0}, '{"tolerationSeconds":0}'),
    ],
)
def test_zero_values_are_written_or_left_out_as_go_does(type_name: str, value: Any, written: str):
    assert go_json(kaito_writer().write(type_name, value), sort_keys=False) == written


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1000000", "1M"),
        ("10E4", "100e3"),
        ("1E6", "1E6"),
        ("1e+3", "1e+3"),
        ("+5", "+5"),
        ("1.", "1."),
        ("1e10", "10e9"),
        ("100E3", "100E3"),
        ("1000E3", "1e6"),
        ("+10", "+10"),
        ("01", "01"),
        ("1.250", "1.250"),
        ("1.5", "1500m"),
        ("0.125", "125m"),
        ("+5Mi", "+5Mi"),
        ("01Mi", "01Mi"),
        ("1.Mi", "1.Mi"),
        ("+8Mi", "8Mi"),
        ("+1.5Mi", "1536Ki"),
        ("+99999Gi", "+99999Gi"),
        ("+100001Gi", "100001Gi"),
        ("+1Ei", "1Ei"),
        ("1.0000000001", "1000000001n"),
        ("9223372036854775808", "9223372036854775808"),
        ("9223372036854775807.5", "9223372036854775807500m"),
        ("-10000000000000000000", "-10E"),
        ("9.5E", "9500P"),
        ("1000E", "1"),
        ("10000000000P", "10"),
        ("1e19", "10e18"),
        ("0.5e21", "500e18"),
        ("1e200", "100e198"),
        ("16Ei", "9223372036854775807"),
        (2, "2"),
        (None, "0"),
    ],
)
def test_quantities_are_written_as_go_has_them(given: Any, written: str):
    assert kaito_writer().write("quantity", given) == written
