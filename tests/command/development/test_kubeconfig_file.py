"""The context of `manta dev` in kubeconfig files that others own too."""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from controller.command.development.runs import (
    DevContext,
    claim,
    clean_up,
    opened,
    running,
)
from controller.kube.errors import ConfigurationError

PRODUCTION = """\
apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: https://prod.example, certificate-authority-data: QUJD}
contexts:
- name: prod
  context: {cluster: prod, user: admin}
current-context: prod
preferences: {colors: true}
users:
- name: admin
  user:
    token: "0123"
    exec: {env: [{name: N, value: "010"}], interactiveMode: Never, provideClusterInfo: yes}
extra: [2024-01-01, 010, 1e3, ~]
"""


def add(path: Path, name: str = "manta-dev", run: str = "run.json") -> str:
    return DevContext(name, path.parent / run).add(path, cluster={"server": "http://x"}, user={})


def remove(path: Path, name: str = "manta-dev", run: str = "run.json") -> bool:
    return DevContext(name, path.parent / run).remove(path)


def content(path: Path):
    return yaml.safe_load(path.read_text())


@pytest.fixture
def production(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(PRODUCTION)
    path.chmod(0o600)
    return path


def test_a_context_is_added_to_a_file_of_others_and_taken_out_again(production: Path):
    before = content(production)
    assert add(production) == "prod"
    held = content(production)
    assert [one["name"] for one in held["contexts"]] == ["prod", "manta-dev"]
    assert held["current-context"] == "manta-dev"
    assert held["contexts"][1]["context"]["namespace"] == "default"
    assert held["users"][0] == before["users"][0]
    assert held["extra"] == before["extra"]
    assert remove(production)
    assert content(production) == before
    assert '"0123"' in production.read_text()
    assert "010" in production.read_text(), "octal 8 is not written as 8"


def test_mode_and_links_of_a_file_are_kept(production: Path, tmp_path: Path):
    production.chmod(0o400)
    link = tmp_path / "link"
    link.symlink_to(production)
    add(link)
    assert link.is_symlink()
    assert stat.S_IMODE(production.stat().st_mode) == 0o400
    assert "manta-dev" in production.read_text()
    remove(link)
    assert stat.S_IMODE(production.stat().st_mode) == 0o400


def test_a_json_file_stays_json(tmp_path: Path):
    path = tmp_path / "config"
    path.write_text(json.dumps(yaml.safe_load(PRODUCTION), default=str))
    path.chmod(0o600)
    before = json.loads(path.read_text())
    add(path)
    remove(path)
    assert content(path) == before


def test_a_file_that_was_not_there_is_private_and_goes_with_the_context(tmp_path: Path):
    path = tmp_path / "new" / "config"
    assert add(path) == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert remove(path)
    assert list(path.parent.iterdir()) == []


def test_a_new_file_stays_when_somebody_has_added_to_it(tmp_path: Path):
    path = tmp_path / "config"
    add(path)
    with opened(path) as file:
        file.add("clusters", "other", {"server": "https://other"})
        file.write()
    assert remove(path)
    assert [one["name"] for one in content(path)["clusters"]] == ["other"]
    assert "current-context" not in content(path)


@pytest.mark.parametrize("first_leaves", [True, False])
def test_two_contexts_in_one_file_leave_what_was_there_in_any_order(
    production: Path, first_leaves: bool
):
    before = content(production)
    add(production, "manta-a", "a.json")
    add(production, "manta-b", "b.json")
    one, other = ("a", "b") if first_leaves else ("b", "a")
    remove(production, f"manta-{one}", f"{one}.json")
    assert content(production)["current-context"] == f"manta-{other}"
    remove(production, f"manta-{other}", f"{other}.json")
    assert content(production) == before


def test_the_last_of_two_contexts_removes_the_file_that_the_first_created(tmp_path: Path):
    path = tmp_path / "config"
    add(path, "manta-a", "a.json")
    add(path, "manta-b", "b.json")
    remove(path, "manta-a", "a.json")
    assert path.exists()
    remove(path, "manta-b", "b.json")
    assert not path.exists()


def test_a_context_that_the_user_has_chosen_meanwhile_stays_current(production: Path):
    add(production)
    with opened(production) as file:
        file.current_context = "prod"
        file.write()
    remove(production)
    assert content(production)["current-context"] == "prod"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be changed"),
        ("a: 1\n---\nb: 2\n", "cannot be changed"),
        ("[]", "it is not a mapping"),
        ("clusters: {a: b}", "clusters must be a list of mappings"),
        ("users: [{user: {}}]", "users must be a list of mappings, each with a name"),
        ("clusters: [{name: manta-dev, cluster: {}}]", "did not add: choose another name"),
        ("contexts: [{name: manta-dev}]", "did not add: choose another name"),
        ("users: [{name: manta-dev}]", "did not add: choose another name"),
    ],
)
def test_a_file_that_is_not_understood_or_not_ours_is_refused_and_not_touched(
    tmp_path: Path, text: str, words: str
):
    path = tmp_path / "config"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=words):
        add(path)
    assert path.read_text() == text
    assert sorted(tmp_path.iterdir()) == [path], "neither lock nor copy is left"


def test_a_file_that_others_can_read_is_refused(production: Path):
    production.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        add(production)
    assert production.read_text() == PRODUCTION


def test_a_file_that_another_program_has_locked_is_waited_for_and_refused(production: Path):
    lock = production.with_name("config.lock")
    lock.touch()
    with (
        pytest.raises(ConfigurationError, match="another program is changing"),
        opened(production, patience=0),
    ):
        pass
    assert lock.exists(), "the lock is not ours"


def test_entries_of_another_running_manta_are_left_alone(production: Path):
    add(production, run="first.json")
    second = DevContext("manta-dev", production.parent / "second.json")
    with (
        closing(claim(production.parent, "first")),
        pytest.raises(ConfigurationError, match="another `manta dev` uses"),
    ):
        second.add(production, cluster={}, user={})
    assert not second.remove(production)
    second.add(production, cluster={}, user={})
    assert [one["name"] for one in content(production)["users"]] == ["admin", "manta-dev"]
    second.remove(production)
    assert content(production) == yaml.safe_load(PRODUCTION)


def test_a_write_that_fails_leaves_the_file_whole(
    production: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="disk full"):
        add(production)
    assert production.read_text() == PRODUCTION
    assert sorted(production.parent.iterdir()) == [production]


def test_every_run_has_a_name_of_its_own(tmp_path: Path):
    first = claim(tmp_path, None)
    first.record(url="http://x:1", kubeconfig=tmp_path / "config")
    second = claim(tmp_path, None)
    assert (first.name, second.name) == ("dev", "dev-2")
    (told,) = running(tmp_path, besides=second)
    assert "http://x:1" in told.text()
    assert str(tmp_path / "config") in told.text()
    with pytest.raises(ConfigurationError, match="--name dev-2` runs already"):
        claim(tmp_path, "dev-2")
    first.close()
    assert running(tmp_path, besides=second) == []
    third = claim(tmp_path, None)
    assert third.name == "dev"
    second.close()
    third.close()


def test_the_next_start_takes_out_what_a_killed_run_has_left(production: Path, tmp_path: Path):
    records = tmp_path / "records"
    run = claim(records, None)
    run.record(url="http://x:1", kubeconfig=production)
    run.context.add(production, cluster={}, user={})
    assert clean_up(records) == [], "it lives"
    run._file.close()  # as the kernel does after kill -9
    (told,) = clean_up(records)
    assert str(production) in told
    assert content(production) == yaml.safe_load(PRODUCTION)
    assert list(records.iterdir()) == []


def test_a_context_that_cannot_be_taken_out_is_tried_again_at_the_next_start(
    production: Path, tmp_path: Path
):
    records = tmp_path / "records"
    run = claim(records, None)
    run.record(url="http://x:1", kubeconfig=production)
    run.context.add(production, cluster={}, user={})
    run._file.close()
    whole = production.read_text()
    production.write_text("{")
    (told,) = clean_up(records)
    assert "still there" in told
    production.write_text(whole)
    assert "took the context" in clean_up(records)[0]
