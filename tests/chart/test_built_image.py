"""The image, built by its Dockerfile and run as a cluster runs it: read-only, as user 65532."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from tests.chart.dockerfile import ROOT, Stage, build, images_can_be_built
from tests.integration.deployed import Site, site
from tests.integration.harness import example_cluster
from tests.ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not images_can_be_built(), reason="SKIP: only root can build an image"),
]

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return build(tmp_path_factory.mktemp("image"))


def contents(image: Stage) -> dict[str, str]:
    """A hash of each file of the image, by its path."""
    opt = image.root / "opt"
    return {
        str(file.relative_to(opt)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(opt.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


def test_the_image_is_small_and_holds_no_compiler(
    image: Stage, record_property: Callable[[str, object], None]
):
    files = [file for file in (image.root / "opt").rglob("*") if file.is_file()]
    size = sum(file.lstat().st_size for file in files)
    record_property("told", f"image: {size / MEBIBYTE:.0f} MiB beyond its base")
    assert size < 120 * MEBIBYTE
    assert not {"gcc", "cc", "ld", "make"} & {file.name for file in files}
    assert not [file for file in files if file.suffix in {".o", ".a"}]


def test_no_address_of_a_package_index_is_in_the_image(image: Stage):
    assert not list((image.root / "opt").rglob("pip.conf"))
    origins = [file.read_text() for file in (image.root / "opt").rglob("direct_url.json")]
    assert [json.loads(each)["url"] for each in origins] == ["file:///src"]


def test_everything_is_compiled(image: Stage):
    packages = next((image.root / "opt/manta/lib").glob("python3*")) / "site-packages"
    bytecode = image.root / "opt/manta/bytecode"
    for package in ("controller", "informers", "workqueue"):
        for source in (packages / package).rglob("*.py"):
            place = bytecode / source.parent.relative_to(image.root)
            assert list(place.glob(f"{source.stem}.*.pyc")), source
    library = bytecode / sysconfig.get_path("stdlib")[1:]
    assert list(library.glob("asyncio/events.*.pyc"))


@pytest.mark.rare
def test_a_second_build_is_the_same_byte_for_byte(
    image: Stage, tmp_path_factory: pytest.TempPathFactory
):
    again = build(tmp_path_factory.mktemp("again"))
    before, after = contents(image), contents(again)
    assert {name for name in before | after if before.get(name) != after.get(name)} == set()


@pytest.mark.rare
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_is_pinned_needs_no_compiler_on_any_architecture(machine: str, tmp_path: Path):
    lock = ROOT / "requirements.lock"
    base = re.search(r"python:([\d.]+)-slim", (ROOT / "Dockerfile").read_text())
    assert base
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:", f"--requirement={lock}"),
        *(f"--platform={glibc}_{machine}" for glibc in ("manylinux2014", "manylinux_2_28")),
        *(f"--python-version={base[1]}", f"--dest={tmp_path}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pinned = re.findall(r"^[\w.-]+==", lock.read_text(), re.MULTILINE)
    assert len(list(tmp_path.glob("*.whl"))) == len(pinned)


async def test_it_serves_a_cluster_as_an_unknown_user_who_can_write_nowhere(
    image: Stage, tmp_path: Path
):
    async with site(custom_resource_definitions()) as at:
        kubeconfig = image.root / "tmp" / "kubeconfig"
        kubeconfig.write_text(at.kubeconfig)
        kubeconfig.chmod(0o644)
        health = f"127.0.0.1:{free_port()}"
        command = image.command(
            *image.entrypoint,
            *("run", "--kubeconfig=/tmp/kubeconfig", "--metrics-address="),
            f"--health-address={health}",
            read_only=True,
        )
        log = tmp_path / "log"
        with log.open("wb") as output:
            operator = await asyncio.to_thread(
                subprocess.Popen, command, stdout=output, stderr=output
            )
        try:
            namespace = at.namespace("team")
            await at.create_namespaces(namespace)
            await at.client.create(RAYCLUSTERS, namespace, example_cluster())
            async with asyncio.timeout(90):
                while not (await is_served(at, namespace) and await answers(health)):
                    assert operator.poll() is None, log.read_text()
                    await asyncio.sleep(0.2)
            assert user_of(operator) == "65532"
            operator.terminate()
            assert await asyncio.to_thread(operator.wait, 90) == 0, log.read_text()
            assert "Traceback" not in log.read_text()
        finally:
            if operator.poll() is None:
                operator.kill()
            operator.wait()


def user_of(process: subprocess.Popen[bytes]) -> str:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return status.partition("Uid:\t")[2].split("\t")[0]


async def is_served(at: Site, namespace: str) -> bool:
    found = await at.client.get(RAYCLUSTERS, namespace, "example")
    return (found.status or {}).get("state") == "ready"


async def answers(health: str) -> bool:
    def ask() -> bool:
        try:
            with urllib.request.urlopen(f"http://{health}/readyz", timeout=30) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    return await asyncio.to_thread(ask)
