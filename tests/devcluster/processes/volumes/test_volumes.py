"""Volumes as folders."""

from __future__ import annotations

import msgspec
import pytest

from devcluster.processes.environment import (
    ACCOUNT,
    AUTHORITY,
    CLAIM,
    CONFIG_MAP,
    SECRET,
    AccountToken,
    DownwardValues,
    InvalidConfiguration,
    SourceReference,
)
from devcluster.processes.specification import SpecifiedPod
from devcluster.processes.volumes import Volumes

SOURCES = {
    "config": SourceReference(CONFIG_MAP, "x"),
    "secret": SourceReference(SECRET, "x"),
    "claim": SourceReference(CLAIM, "x"),
    "token": AccountToken(ACCOUNT, "default", "p", "", ""),
    "authority": SourceReference(AUTHORITY, ""),
}
AROUND = DownwardValues(pod_ip="10.1.2.3", host_ip="10.1.0.1", cpus=4, memory=1)


def a_pod(volume, mount=None) -> SpecifiedPod:
    mounts = [{"name": "v", "mountPath": "/v", **(mount or {})}]
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "1"}},
            "spec": {
                "volumes": [{"name": "v", **volume}],
                "containers": [{"name": "main", "volumeMounts": mounts}],
            },
        },
        SpecifiedPod,
    )


def mounted(tmp_path, volume, mount=None, **sources):
    """The one mount of a pod with one volume."""
    pod = a_pod(volume, mount)
    data = {SOURCES[name]: value for name, value in sources.items()}
    volumes = Volumes(pod, tmp_path, tmp_path / "memory", tmp_path / "claims")
    assert volumes.sources == data.keys()
    volumes.prepare(AROUND, data)
    (made,) = volumes.mounts(pod.spec.containers[0], {"NAME": "sub"})
    return made


def files(folder) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_config_maps_secrets_and_fields_are_files(tmp_path):
    volume = {
        "projected": {
            "sources": [
                {"configMap": {"name": "x"}},
                {"secret": {"name": "x", "items": [{"key": "k", "path": "deep/key"}]}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": LABELS}}]}},
                {"serviceAccountToken": {"path": "token"}},
                {"clusterTrustBundle": {"path": "ca.crt"}},
            ]
        }
    }
    made = mounted(
        tmp_path,
        volume,
        config={"a": b"1"},
        secret={"k": b"2", "other": b""},
        token={"token": b"t"},
        authority={"ca.crt": b"c"},
    )
    assert made.read_only
    assert files(made.source) == {
        "a": "1",
        "ca.crt": "c",
        "deep/key": "2",
        "l": 'a="1"',
        "token": "t",
    }


LABELS = "metadata.labels"


@pytest.mark.parametrize(
    ("volume", "sources", "message"),
    [
        ({"configMap": {"name": "x"}}, {"config": None}, 'configmap "x" not found'),
        (
            {"secret": {"secretName": "x", "items": [{"key": "k", "path": "k"}]}},
            {"secret": {}},
            'secret "x" references non-existent key: k',
        ),
        (
            {"secret": {"secretName": "x", "items": [{"key": "k", "path": "../k"}]}},
            {"secret": {"k": b""}},
            "leads out of the volume",
        ),
        (
            {"persistentVolumeClaim": {"claimName": "x"}},
            {"claim": None},
            'persistentvolumeclaim "x" not found',
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"token": None},
            'serviceaccount "default" not found',
        ),
        ({"hostPath": {"path": "/nowhere/at/all"}}, {}, "/nowhere/at/all is not there"),
        ({"hostPath": {"path": "/etc/passwd", "type": "Directory"}}, {}, "not a directory"),
        ({"nfs": {"server": "s"}}, {}, "this kind of volume is not possible here"),
    ],
)
def test_what_is_missing_is_named(tmp_path, volume, sources, message):
    with pytest.raises(InvalidConfiguration, match=message) as failure:
        mounted(tmp_path, volume, **sources)
    assert str(failure.value).startswith('MountVolume.SetUp failed for volume "v" : ')


def test_what_is_optional_may_be_missing(tmp_path):
    made = mounted(tmp_path, {"configMap": {"name": "x", "optional": True}}, config=None)
    assert files(made.source) == {}


def test_modes(tmp_path):
    items = [{"key": "k", "path": "own", "mode": 0o755}, {"key": "k", "path": "usual"}]
    volume = {"secret": {"secretName": "x", "items": items, "defaultMode": 0o600}}
    made = mounted(tmp_path, volume, secret={"k": b""})
    assert (made.source / "own").stat().st_mode & 0o777 == 0o755
    assert (made.source / "usual").stat().st_mode & 0o777 == 0o600


def test_memory_claims_and_host_paths_have_their_places(tmp_path):
    assert mounted(tmp_path, {"emptyDir": {"medium": "Memory"}}).source.parent.name == "memory"
    claim = {"persistentVolumeClaim": {"claimName": "x", "readOnly": True}}
    made = mounted(tmp_path, claim, claim={"uid": b"u1"})
    assert (made.source, made.read_only) == (tmp_path / "claims/u1", True)
    assert str(mounted(tmp_path, {"hostPath": {"path": "/etc"}}).source) == "/etc"


def test_sub_paths(tmp_path):
    made = mounted(tmp_path, {"emptyDir": {}}, {"subPath": "a/b"})
    assert made.source == tmp_path / "v0/a/b"
    made = mounted(tmp_path, {"emptyDir": {}}, {"subPathExpr": "$(NAME)"})
    assert made.source == tmp_path / "v0/sub"
    config = {"configMap": {"name": "x"}}
    made = mounted(tmp_path / "1", config, {"subPath": "a"}, config={"a": b"1"})
    assert made.source.read_text() == "1"
    with pytest.raises(InvalidConfiguration, match="does not exist"):
        mounted(tmp_path / "2", config, {"subPath": "b"}, config={"a": b"1"})
    with pytest.raises(InvalidConfiguration, match="leads out"):
        mounted(tmp_path, {"emptyDir": {}}, {"subPath": "../b"})


def test_a_sub_path_through_a_link_that_leads_out_is_refused(tmp_path):
    pod = a_pod({"emptyDir": {}}, {"subPath": "link"})
    volumes = Volumes(pod, tmp_path, tmp_path / "memory", tmp_path / "claims")
    volumes.prepare(AROUND, {})
    (tmp_path / "v0/link").symlink_to("/etc")
    with pytest.raises(InvalidConfiguration):
        volumes.mounts(pod.spec.containers[0], {})
