"""The environment with Ray: made once, whole or not at all. A tiny wheel stands for Ray."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import sys
import tomllib
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

from controller.command.development import rayenv
from controller.command.development.rayenv import (
    LOCK,
    RayEnvironment,
    create_ray_environment,
    ray_environment,
)
from controller.kube.errors import ConfigurationError

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]


def wheel(folder: Path, code: str = "") -> str:
    """A wheel of a package named ray in `folder`; returns its hash."""
    folder.mkdir(exist_ok=True)
    files = {
        "ray/__init__.py": code,
        "ray-9.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ray\nVersion: 9.0.0\n",
        "ray-9.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text)}\n"
        for name, text in files.items()
    )
    path = folder / "ray-9.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("ray-9.0.0.dist-info/RECORD", f"{record}ray-9.0.0.dist-info/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayEnvironment:
    """One that is still to be made, from a package index in a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    lock = tmp_path / "ray.lock"
    lock.write_text(f"ray==9.0.0 \\\n    --hash=sha256:{wheel(tmp_path / 'index')}\n")
    return RayEnvironment(tmp_path / "cache" / "ray-9.0.0", lock)


@pytest.mark.slow
async def test_two_at_once_make_it_once_in_the_place_of_one_that_was_not_finished(
    environment: RayEnvironment, capfd: pytest.CaptureFixture[str]
):
    half = environment.folder / "bin" / "half-made"
    half.parent.mkdir(parents=True)
    half.touch()
    assert not environment.is_complete()

    await asyncio.gather(create_ray_environment(environment), create_ray_environment(environment))
    assert environment.is_complete()
    assert not half.exists()
    assert not (environment.folder / "tmp").exists()
    printed = capfd.readouterr()
    assert [printed.err.count(f" -m {module} ") for module in ("venv", "pip")] == [1, 1]
    assert "Successfully installed ray-9.0.0" in printed.err
    assert "another manta is making the environment with Ray; waiting for it" in printed.err

    await create_ray_environment(environment)
    assert capfd.readouterr() == ("", "")


def test_one_from_another_lock_file_or_without_its_python_is_not_complete(
    environment: RayEnvironment, tmp_path: Path
):
    environment.python.parent.mkdir(parents=True)
    environment.python.symlink_to(sys.executable)
    environment.mark_complete()
    assert environment.is_complete()

    environment.python.unlink()
    environment.python.symlink_to(tmp_path / "a-python-that-was-upgraded")
    assert not environment.is_complete()

    environment.python.unlink()
    environment.python.symlink_to(sys.executable)
    environment.lock.write_text("ray==9.0.1\n")
    assert not environment.is_complete()


@pytest.mark.slow
async def test_a_ray_that_cannot_be_imported_is_not_kept(
    environment: RayEnvironment, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    digest = wheel(tmp_path / "index", code="raise ImportError('wrong libc')")
    environment.lock.write_text(f"ray==9.0.0 --hash=sha256:{digest}\n")
    with pytest.raises(ConfigurationError, match="stands above"):
        await create_ray_environment(environment)
    assert "wrong libc" in capfd.readouterr().err
    assert not environment.folder.exists()


async def test_being_stopped_ends_the_installer_and_leaves_nothing_behind(
    environment: RayEnvironment,
):
    making_it = asyncio.create_task(create_ray_environment(environment))
    await asyncio.sleep(0.3)
    assert environment.folder.exists()
    making_it.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making_it
    assert not environment.folder.exists()
    with environment.folder.with_name("ray-9.0.0.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an installer would hold it still


async def test_a_full_disk_is_noticed_before_anything_is_made(
    environment: RayEnvironment, monkeypatch: pytest.MonkeyPatch
):
    usage = namedtuple("usage", "total used free")  # noqa: PYI024  as shutil has it
    monkeypatch.setattr(rayenv.shutil, "disk_usage", lambda path: usage(10, 9, 5_000_000))
    with pytest.raises(ConfigurationError, match=r"has 5 MB left.*XDG_CACHE_HOME"):
        await create_ray_environment(environment)
    assert not environment.folder.exists()


async def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    environment = RayEnvironment(tmp_path / "file" / "ray-9.0.0", LOCK)
    with pytest.raises(ConfigurationError, match=r"file/ray-9\.0\.0: .*XDG_CACHE_HOME"):
        await create_ray_environment(environment)


def test_it_is_in_the_cache_folder_and_named_by_its_version(tmp_path: Path):
    environment = ray_environment({"XDG_CACHE_HOME": str(tmp_path)})
    version = environment.pins["ray"]
    assert environment.folder == tmp_path / "manta" / f"ray-{version}"


def test_the_lock_file_is_made_from_the_version_in_the_project_file():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    version = ray_environment({"XDG_CACHE_HOME": "/"}).pins["ray"]
    assert project["dependency-groups"]["ray"] == [f"ray[default,serve]=={version}"]


def test_the_lock_file_pins_everything_by_hash_and_names_no_address():
    text = LOCK.read_text()
    assert "://" not in text
    assert "--index" not in text
    requirements = text.replace("\\\n", "").splitlines()
    assert len(requirements) > 50
    assert all("--hash=sha256:" in requirement for requirement in requirements)
