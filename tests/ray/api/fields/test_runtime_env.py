"""Runtime environments: YAML as KubeRay reads it, and nothing that brings the operator down."""

from __future__ import annotations

import json
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.user_yaml import InvalidYaml
from controller.apimachinery.validation import Problem
from controller.ray.api import ClusterSpec, labels, validate_cluster
from controller.ray.api.ray_options import MOST_RUNTIME_ENV_BYTES, read_runtime_env
from controller.ray.api.upgrade_strategy import (
    RayClusterUpgradeStrategy,
    RollingUpdate,
    strategy_in_force,
)
from tests.ray.cluster.support import cluster, manifest

BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 8)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
WIDE = f"a: &a {{{', '.join(f'k{n}: 1' for n in range(3000))}}}\nb:\n" + "- {<<: *a}\n" * 2000
LONG = f"a: &a {'x' * 60_000}\nb: [{', '.join(['*a'] * 9000)}]\n"


def test_the_text_of_a_field_report_is_read_as_kuberay_reads_it():
    text = (
        "env_vars: {LR: 1E-5, SHARD: 007, FLAG: true, RUN_DATE: 2026-01-15, WINDOW: 12:30:00, "
        'ODD: yEs, 8080: open, MOTD: "first line\\nsecond line"}\n---\nenv_vars: {ANOTHER: 1}\n'
    )
    assert read_runtime_env(text)["env_vars"] == {
        "LR": 1e-5,
        "SHARD": 7,
        "FLAG": True,
        "RUN_DATE": "2026-01-15",
        "WINDOW": "12:30:00",
        "ODD": "yEs",
        "8080": "open",
        "MOTD": "first line\nsecond line",
    }


@pytest.mark.parametrize("text", ["", "# nothing", "null", "---\n"])
def test_text_without_a_value_is_an_empty_environment(text: str):
    assert read_runtime_env(text) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a]", "must be a mapping"),
        ("text", "must be a mapping"),
        ("a: b: c", "is not YAML: mapping values are not allowed in this context in line 1"),
        ("a: .inf", "the number inf"),
        ("a: .nan", "the number nan"),
        ("a: !!int ''", "is not YAML"),
        ("a: !!timestamp x", "is not YAML"),
        ("? [a]\n: b", "is not YAML"),
        ("null: a", "a key is null"),
        ("a: *b", "is not YAML"),
        ("\x00", "is not YAML"),
        ("a: \ud800", "is not YAML"),
        ("[" * 60_000, "levels deep"),
        ("{a: " * 30_000, "levels deep"),
        ("- " * 60_000 + "a", "levels deep"),
        ("? " * 60_000, "a key is a list or a mapping"),
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        (BOMB, "more than 20000 values"),
        (MERGES, "more than 20000 values"),
        (WIDE, "more than 20000 values"),
        (LONG, "bytes"),
        (f"a: &a {'9' * 4000}\nb: [{', '.join(['*a'] * 9000)}]", "bytes"),
        (f"a: [{', '.join(['&a {? ' + 'x' * 60_000 + ' : 1}'] + ['*a'] * 9000)}]", "bytes"),
        ("a: {<<: 7}", "only mappings can be merged"),
        ("a: [" + "1," * 30_000 + "]", "more than 20000 values"),
        ("a: " + "x" * MOST_RUNTIME_ENV_BYTES, "bytes"),
    ],
    ids=lambda value: value[:20].replace("\x00", "NUL").encode("ascii", "replace").decode(),
)
def test_what_cannot_be_an_environment_is_said(text: str, words: str):
    started = time.process_time()
    with pytest.raises(InvalidYaml, match=words):
        read_runtime_env(text)
    assert time.process_time() - started < 2, "the operator does nothing else meanwhile"


def test_what_is_wrong_is_said_without_what_may_be_secret():
    for text in ("a: !!int secret", "password: secret: secret", "a: !!float secret"):
        with pytest.raises(InvalidYaml) as caught:
            read_runtime_env(text)
        assert "secret" not in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.text() | st.text(alphabet="ab:-?[]{}&*!|>'\"%@,# \n\t0123.eE~<", max_size=40))
def test_any_text_is_an_environment_or_is_said_not_to_be(text: str):
    try:
        value = read_runtime_env(text)
    except InvalidYaml:
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value


# -- upgrade strategies --------------------------------------------------------------------------


def in_force(text: str, **given: object) -> RayClusterUpgradeStrategy | Problem:
    strategy = msgspec.convert(given, RayClusterUpgradeStrategy)
    return strategy_in_force(strategy, {labels.UPGRADE_STRATEGY: text})


def test_a_valid_cluster_has_the_strategy_of_its_annotation():
    raw = manifest()
    text = '{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "paused": true}}'
    raw["metadata"]["annotations"] = {labels.UPGRADE_STRATEGY: text}
    spec = validate_cluster(cluster(raw))
    assert isinstance(spec, ClusterSpec)
    assert spec.upgrade_strategy.rolling == RollingUpdate(max_surge="25%", paused=True)


@pytest.mark.parametrize("text", ["RollingUpdate", " RollingUpdate\n", '{"type":"RollingUpdate"}'])
def test_the_bare_type_has_the_defaults(text: str):
    strategy = in_force(text)
    assert isinstance(strategy, RayClusterUpgradeStrategy)
    assert strategy.rolling == RollingUpdate(
        max_unavailable=0,
        max_surge=1,
        max_parallel_groups=1,
        drain_timeout_seconds=300,
        progress_deadline_seconds=600,
        paused=False,
    )


@pytest.mark.parametrize("kind", [None, "None", "Recreate"])
def test_other_strategies_roll_nothing(kind: str | None):
    assert RayClusterUpgradeStrategy(type=kind).rolling is None


@pytest.mark.parametrize(
    "text", ["[" * 900, '{"type":' * 110, '"\ud800"', "\x00", "1e999", "null", "{" + " " * 2000]
)
def test_an_annotation_of_any_content_is_a_problem_that_shows_how_to_write_it(text: str):
    problem = in_force(text)
    assert isinstance(problem, Problem)
    assert 'write RollingUpdate, or JSON such as {"type"' in problem.message
    assert len(str(problem)) < 500


@pytest.mark.parametrize(
    ("amounts", "desired", "surge", "unavailable"),
    [
        ({}, 3, 1, 0),
        ({"max_surge": "10%", "max_unavailable": "10%"}, 15, 2, 1),
        ({"max_surge": "100%"}, 3, 3, 0),
        ({"max_surge": "150%"}, 3, 5, 0),
        ({"max_surge": 0, "max_unavailable": 2}, 3, 0, 2),
        ({"max_surge": 5, "max_unavailable": 5}, 0, 5, 5),
        ({"max_surge": "10%"}, 0, 0, 1),
        ({"max_surge": 0, "max_unavailable": "10%"}, 3, 0, 1),  # or nothing could move
        ({"max_surge": 0, "max_unavailable": "10%"}, 0, 0, 1),
    ],
)
def test_surge_rounds_up_and_unavailable_rounds_down(
    amounts: dict[str, int | str], desired: int, surge: int, unavailable: int
):
    rolling = msgspec.structs.replace(RollingUpdate(), **amounts)
    assert (rolling.surge_of(desired), rolling.unavailable_of(desired)) == (surge, unavailable)
