"""`manta diagnose`: an archive of what a bug report needs, and of no secret."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from controller.command.connection import CommandFailed
from controller.command.diagnose import DiagnoseOptions, diagnose
from controller.kube.errors import ConfigurationError
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import World, example_cluster
from tests.integration.test_status import AGENT, refuse

SECRET = "s3cr3t-v4lue"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def collected(world: World, folder: Path, *target: str, **more: Any) -> dict[str, str]:
    """The files of the archive by name; no debug page answers at port 1."""
    file = folder / "report.tar.gz"
    options = DiagnoseOptions(target, file=file, port=1, **more)
    assert await diagnose(world.client(AGENT), world.namespace, options, world.wall) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as tar:
        parts = [(each.name, tar.extractfile(each)) for each in tar]
        found = {name.removeprefix("report/"): part.read().decode() for name, part in parts if part}
    file.unlink()
    return found


async def two_clusters_and_an_operator(world: World) -> None:
    world.start_operator()
    manifest = example_cluster("first")
    head = manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["env"] = [{"name": "REDIS_PASSWORD", "value": SECRET}]
    manifest["metadata"]["annotations"] = {APPLIED: f'{{"value": "{SECRET}"}}'}
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.create_cluster("second")
    for name in ("first", "second"):
        await world.eventually(lambda name=name: world.is_ready(name))
    settings = {
        "metadata": {"name": "settings"},
        "data": {"config.yaml": "reconcileConcurrency: 3"},
    }
    await world.user.create(CONFIG_MAPS, world.namespace, settings)
    operator = {
        "metadata": {"name": "manta-0", "labels": {"app.kubernetes.io/name": "manta-operator"}},
        "spec": {
            "containers": [{"name": "manta", "image": "manta:1"}],
            "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
        },
    }
    await world.user.create(PODS, world.namespace, operator)


async def test_a_namespace_is_collected_with_what_belongs_to_its_objects(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    await two_clusters_and_an_operator(world)
    await world.events_about("RayCluster", "second", "CreatedHeadPod")
    found = await collected(world, tmp_path)
    assert {
        "objects/rayclusters.yaml",
        "objects/pods.yaml",
        "objects/services.yaml",
    } <= found.keys()
    assert "CreatedHeadPod" in found["objects/events.yaml"]
    assert found["objects/pods.yaml"].count("kind: Pod\n") == 6
    assert "name: manta-0" in found["operator/pods.yaml"]
    assert "reconcileConcurrency: 3" in found["operator/configmap-settings.json"]
    assert "rayclusters.ray.io" in found["operator/definitions.yaml"]
    assert "openAPIV3Schema" not in found["operator/definitions.yaml"]
    assert found["version.txt"].startswith("manta ")
    assert "gitVersion" in found["version.txt"]
    assert SECRET not in "".join(found.values())
    told = capsys.readouterr()
    assert told.err.startswith("collecting objects of Ray in ")
    last = told.out.splitlines()[-1]
    assert "report.tar.gz (" in last
    assert "2 rayclusters, 6 pods, 2 services, " in last
    assert "values redacted. Look through it before you send it." in last
    assert any("nothing listens at port 1" in line for line in told.out.splitlines())
    assert "nothing listens at port 1" in found["missing.txt"]


async def test_one_object_is_collected_without_the_others(world: World, tmp_path: Path):
    await two_clusters_and_an_operator(world)
    found = await collected(world, tmp_path, "raycluster/second")
    assert found["objects/pods.yaml"].count("kind: Pod\n") == 3
    objects = "".join(text for name, text in found.items() if name.startswith("objects/"))
    assert "name: second-head-svc" in objects
    assert "first-head" not in objects
    assert "name: manta-0" in found["operator/pods.yaml"]


@pytest.mark.embedded_only
async def test_what_may_not_be_read_is_named_and_the_rest_is_there(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    await two_clusters_and_an_operator(world)
    refuse(world, "services", "list")
    found = await collected(world, tmp_path)
    assert "objects/services.yaml" not in found
    assert "services: " in found["missing.txt"]
    assert 'cannot list resource "services"' in found["missing.txt"]
    assert "not inside: services: " in capsys.readouterr().out
    assert "second-head" in found["objects/pods.yaml"]


async def test_a_name_that_is_not_there_or_a_file_that_is_leaves_everything_as_it_is(
    world: World, tmp_path: Path
):
    with pytest.raises(CommandFailed, match="raycluster/nothing does not exist in namespace"):
        await collected(world, tmp_path, "raycluster/nothing")
    there = tmp_path / "report.tar.gz"
    assert not there.exists()
    there.write_text("mine")
    with pytest.raises(ConfigurationError, match="exists; name another file with -f"):
        await diagnose(
            world.client(AGENT), world.namespace, DiagnoseOptions(file=there), world.wall
        )
    assert there.read_text() == "mine"
