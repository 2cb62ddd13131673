"""`--image NAME=PATH`."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.command.development.process_node import parse_images, ray_program
from controller.devcluster.processes.images import Images
from controller.kube.errors import ConfigurationError


def environment(folder: Path, name: str) -> Path:
    (folder / name / "bin").mkdir(parents=True)
    return folder / name


def test_every_option_names_an_environment(tmp_path: Path):
    one, two = environment(tmp_path, "one"), environment(tmp_path, "two")
    images = parse_images([f"rayproject/ray={one}", f"registry:5000/own:1.0={two}"])
    assert images["rayproject/ray"].path == one
    assert images["registry:5000/own:1.0"].path == two
    assert images["rayproject/ray"].env["GRPC_DNS_RESOLVER"] == "native"


def test_paths_may_be_relative_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = environment(tmp_path, "own")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_images(["a=own", "b=~/own"])["a"].path == own
    assert parse_images(["a=own", "b=~/own"])["b"].path == own


@pytest.mark.parametrize("option", ["rayproject/ray", "=/tmp", "rayproject/ray="])
def test_an_option_of_another_form_is_refused_with_the_right_one(option: str):
    with pytest.raises(ConfigurationError, match=f"--image {option}: write NAME=PATH"):
        parse_images([option])


def test_a_path_that_is_no_environment_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"--image a=.*is not a folder; give the folder"):
        parse_images([f"a={tmp_path}/missing"])
    with pytest.raises(ConfigurationError, match=r"--image a=.*has no folder bin; give"):
        parse_images([f"a={tmp_path}"])


def test_a_name_is_given_once(tmp_path: Path):
    own = environment(tmp_path, "own")
    with pytest.raises(ConfigurationError, match="a has another environment already"):
        parse_images([f"a={own}", f"a={own}"])


def test_rays_own_program_is_the_one_that_pods_run(tmp_path: Path):
    own = environment(tmp_path, "own")
    assert ray_program(Images({})) == "ray"
    assert ray_program(Images(parse_images([f"rayproject/ray={own}"]))) == "ray"
    (own / "bin" / "ray").touch()
    assert ray_program(Images(parse_images([f"rayproject/ray={own}"]))) == str(own / "bin" / "ray")
