"""What looks like a secret is taken out; what a bug report needs stays."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.output import REDACTED, Redaction

SECRET = "s3cr3t-v4lue"


def pod(**container: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}


def redacted(obj: dict[str, Any]) -> str:
    return str(Redaction().object(obj))


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD",
        "REDIS_PASSWORD",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "API_KEY",
        "DB_DSN",
        "AUTH",
    ],
)
def test_variables_that_are_named_like_secrets_lose_their_value(name: str):
    assert SECRET not in redacted(pod(env=[{"name": name, "value": SECRET}]))


@pytest.mark.parametrize(
    "value",
    [
        "postgres://user:s3cr3t-v4lue@db:5432/a",
        "hf_s3cr3tv4lue0123456789",
        "sk-s3cr3tv4lue0123456789",
        "ghp_s3cr3tv4lue0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "https://a.example/b?X-Amz-Signature=abcdef0123",
    ],
)
def test_values_that_look_like_secrets_are_taken_out_of_any_field(value: str):
    for place in ({"env": [{"name": "PLACE", "value": value}]}, {"args": [f"python a.py {value}"]}):
        said = redacted(pod(**place))
        assert value not in said
        assert REDACTED in said


@pytest.mark.parametrize(
    "line",
    [
        "python a.py --password s3cr3t-v4lue",
        "python a.py --api-key=s3cr3t-v4lue",
        "ray start --redis-password='s3cr3t-v4lue'",
        "env_vars:\n  HF_TOKEN: s3cr3t-v4lue\n",
        '{"env_vars": {"DB_PASSWORD": "s3cr3t-v4lue"}}',
        '{\\"token\\": \\"s3cr3t-v4lue\\"}',
        "Authorization: Bearer s3cr3t-v4lue",
        "-----BEGIN PRIVATE KEY-----\ns3cr3t-v4lue\n-----END PRIVATE KEY-----",
    ],
)
def test_texts_lose_the_secret_only(line: str):
    said = Redaction().text(f"before {line} after")
    assert SECRET not in said
    assert said.startswith("before ")
    if "\\n" not in line:
        assert said.endswith("after")


def test_fields_options_annotations_and_secrets_lose_their_values():
    assert SECRET not in redacted({"spec": {"rayStartParams": {"redis-password": SECRET}}})
    assert SECRET not in redacted(pod(args=["serve", "--token", SECRET]))
    applied = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"x": "{SECRET}"}}'}
    assert SECRET not in redacted({"metadata": {"annotations": applied}})
    assert SECRET not in redacted(
        {"kind": "Secret", "data": {"a": SECRET}, "stringData": {"b": SECRET}}
    )


def test_what_only_names_a_secret_stays_and_is_not_counted():
    reference = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
    obj = pod(
        env=[reference, {"name": "RAY_ADDRESS", "value": "ray://head:10001"}],
        volumeMounts=[{"name": "kube-api-access", "mountPath": "/var/run/secrets"}],
        imagePullSecrets=[{"name": "pull"}],
        volumes=[{"secret": {"secretName": "certificate"}}],
        message='create the Secret "hf" in namespace default',
        automountServiceAccountToken=False,
    )
    redaction = Redaction()
    assert redaction.object(obj) == obj
    assert redaction.count == 0
