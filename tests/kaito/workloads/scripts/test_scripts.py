"""The scripts of containers, run with programs that stand in for skopeo, oras and curl."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from controller.kaito.workloads.pods import script

pytestmark = pytest.mark.real_time

SKOPEO = """
last() { for word in "$@"; do :; done; echo "$word"; }
echo "$@" >> "$LOG"
case $1 in
copy)
    case "$*" in *"${NEEDS}"*) ;; *) exit 1 ;; esac
    target=$(last "$@"); mkdir "${target#dir:}"; mkdir data; echo content > data/adapter.bin
    tar -c -f "${target#dir:}/abc" data; rm -r data ;;
inspect) echo "sha256:abc " ;;
esac
"""
ORAS = """
echo "$@" >> "$LOG"
[ "$1" = cp ] || { cat annotations.json >> "$LOG"; tar -t -z -f layer.tar.gz >> "$LOG"; }
"""
CURL = """
echo "$@" >> "$LOG"
[ -e "$WORKS" ] || { touch "$WORKS"; exit 22; }
while [ "$1" != --output ]; do shift; done
echo content > "$2"
"""


def run(folder: Path, program: str, body: str, text: str, **env: str) -> str:
    """Run a script in a folder; the calls of the program, line by line."""
    stand_in = folder / program
    stand_in.write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
    stand_in.chmod(0o755)
    log = folder / "log"
    path = f"{folder}:{os.environ['PATH']}"
    environment = {"PATH": path, "LOG": str(log), "HOME": str(folder), **env}
    subprocess.run(["/bin/sh", "-c", text], check=True, cwd=folder, env=environment, timeout=60)
    return log.read_text(encoding="utf-8")


def test_an_image_is_tried_with_each_credential_and_its_data_put_in_place(tmp_path: Path):
    for secret in ("first", "second"):
        file = tmp_path / ".docker" / "config.d" / "purpose" / f"{secret}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    target = tmp_path / "adapters" / "it's one"
    text = script("pull.sh", image="example.com/a:1", destination=str(target))
    run(tmp_path, "skopeo", SKOPEO, text, NEEDS="second.json")
    log = run(tmp_path, "skopeo", SKOPEO, text, NEEDS="second.json")
    assert [each.name for each in target.iterdir()] == ["adapter.bin"]
    assert log.count("copy") == 6


def test_an_image_that_no_credential_opens_fails(tmp_path: Path):
    text = script("pull.sh", image="example.com/a:1", destination=str(tmp_path / "target"))
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, "skopeo", SKOPEO, text, NEEDS="nothing.json")


def test_a_result_is_pushed_when_the_training_has_ended(tmp_path: Path):
    for name in ("adapter_config.json", "adapter_model.safetensors", "fine_tuning_completed.txt"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    text = script("push.sh", results=str(tmp_path), image="example.com/r:1", annotations="{'a'}")
    log = run(tmp_path, "oras", ORAS, text)
    assert "{'a'}" in log
    assert "data/adapter_model.safetensors" in log
    assert log.splitlines()[-1] == "cp --from-oci-layout layout:latest example.com/r:1"


def test_data_is_downloaded_again_after_a_failure(tmp_path: Path):
    env = {"DATA_URLS": "https://example.com/a.parquet?b=/c", "DATA_VOLUME_PATH": str(tmp_path)}
    text = script("download.sh").replace("sleep 2", "sleep 0")
    log = run(tmp_path, "curl", CURL, text, WORKS=str(tmp_path / "works"), **env)
    assert log.count("https://example.com/a.parquet?b=/c") == 2
    assert (tmp_path / "a.parquet").read_text(encoding="utf-8") == "content\n"


def test_no_address_is_an_error(tmp_path: Path):
    env = {"DATA_URLS": "", "DATA_VOLUME_PATH": str(tmp_path)}
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, "curl", CURL, script("download.sh"), **env)
