"""Initial objects of every cluster: namespaces, priority classes, the service `kubernetes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.options.write_options import WriteOptions

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.registry import Registry
    from controller.devcluster.apiserver.writing.object_writer import ObjectWriter

PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NAMESPACES = ("kube-system", "default", "kube-node-lease", "kube-public")


def create_initial_objects(writer: ObjectWriter, registry: Registry) -> None:
    """Create the initial objects."""
    namespaces = registry.find("", "v1", "namespaces")
    services = registry.find("", "v1", "services")
    assert namespaces is not None
    assert services is not None
    priorities = registry.find("scheduling.k8s.io", "v1", "priorityclasses")
    assert priorities is not None
    options = WriteOptions()
    for name, value in PRIORITIES.items():
        body: Json = {"metadata": {"name": name}, "value": value}
        writer.create(priorities, "", body, options)
    for name in NAMESPACES:
        writer.create(namespaces, "", {"metadata": {"name": name}}, options)
    service: Json = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
        },
    }
    writer.create(services, "default", service, options)
