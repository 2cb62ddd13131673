"""What newcomers write and mistype: manifests, and the words that they must meet."""

from __future__ import annotations

import textwrap
from typing import Final

from msgspec import Struct

CLUSTER: Final = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: NAME
spec:
  rayVersion: 2.60.0
  headGroupSpec:
    rayStartParams:
      dashboard-host: 0.0.0.0
    template:
      spec:
        containers:
        - name: head
          image: rayproject/ray:2.60.0
  workerGroupSpecs:
  - groupName: small
    replicas: 1
    minReplicas: 0
    maxReplicas: 3
    template:
      spec:
        containers:
        - name: worker
          image: rayproject/ray:2.60.0
          resources:
            requests:
              cpu: "1"
"""


def _spec(manifest: str) -> str:
    """The lines below `spec`, one level deeper."""
    return textwrap.indent(manifest.partition("spec:\n")[2], "  ")


_EMBEDDED: Final = _spec(CLUSTER)
JOB: Final = f"""\
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: NAME
spec:
  entrypoint: python train.py
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 60
  runtimeEnvYAML: |
    pip: [torch]
  rayClusterSpec:
{_EMBEDDED}"""
SERVICE: Final = f"""\
apiVersion: ray.io/v1
kind: RayService
metadata:
  name: NAME
spec:
  serveConfigV2: |
    applications:
    - name: text
      import_path: text:app
  rayClusterConfig:
{_EMBEDDED}"""
CRON: Final = f"""\
apiVersion: ray.io/v1
kind: RayCronJob
metadata:
  name: NAME
spec:
  schedule: "30 3 * * 1-5"
  timeZone: Europe/Paris
  jobTemplate:
{_spec(JOB)}"""


class Wrong(Struct, frozen=True):
    """A manifest with one error.

    Attributes:
        text: the manifest without the error.
        right: what stands there.
        wrong: what was written instead.
        refused: what kubectl says; empty if the object is stored.
        stored: what a condition of the stored object says.
        planned: what `manta plan` says, if it can read the file.
    """

    name: str
    text: str
    right: str
    wrong: str
    refused: str = ""
    stored: str = ""
    planned: str = ""

    @property
    def manifest(self) -> str:
        assert self.right in self.text, self.right
        return self.text.replace(self.right, self.wrong, 1).replace("NAME", self.name)


LONG: Final = "our-team-s-cluster-for-the-nightly-training-of-the-next-model"
_SAME: Final = """\
  - groupName: small
    minReplicas: 0
    maxReplicas: 3
    template: {spec: {containers: [{name: a, image: b}]}}
  - groupName: small"""
_TEMPLATE: Final = CLUSTER.partition("maxReplicas: 3\n")[2]
_CONTAINERS: Final = CLUSTER[CLUSTER.rindex("        containers:") :]
_MODES: Final = "K8sJobMode, HTTPMode, InteractiveMode, SidecarMode"

WRONG: Final = (
    Wrong(
        "field",
        CLUSTER,
        "    replicas: 1",
        "    replica: 1",
        refused='unknown field "spec.workerGroupSpecs[0].replica"',
        planned="spec.workerGroupSpecs[0].replica: is unknown (did you mean replicas?)",
    ),
    Wrong(
        "top",
        CLUSTER,
        "  rayVersion",
        "  enableInTreeAutoscaler: true\n  rayVersion",
        refused='unknown field "spec.enableInTreeAutoscaler"',
        planned="is unknown (did you mean enableInTreeAutoscaling?); correct or remove it",
    ),
    Wrong(
        "text",
        CLUSTER,
        "replicas: 1",
        "replicas: one",
        refused="spec.workerGroupSpecs[0].replicas in body must be of type integer",
        planned="spec.workerGroupSpecs[0].replicas: must be an integer and is a string",
    ),
    Wrong("tab", CLUSTER, "    minReplicas", "\tminReplicas", refused="found a tab character"),
    Wrong("anchor", CLUSTER, "rayproject/ray:2.60.0", "*image", refused="unknown anchor 'image'"),
    Wrong(
        "negative",
        CLUSTER,
        "replicas: 1",
        "replicas: -3",
        refused="spec.workerGroupSpecs[0].replicas: Invalid value: -3: must not be negative",
        planned="spec.workerGroupSpecs[0].replicas: must not be negative",
    ),
    Wrong(
        LONG,
        CLUSTER,
        "2.60.0",
        "2.60.0",
        refused="must have at most 53 characters, which leave room for the names of its services",
        planned="metadata.name: has 61 characters; at most 53 leave room for the names",
    ),
    Wrong(
        "My_Cluster",
        CLUSTER,
        "2.60.0",
        "2.60.0",
        refused="must consist of lower-case letters, digits and dashes and begin with a letter",
        planned="metadata.name: must consist of lower-case letters, digits and dashes",
    ),
    Wrong(
        "parameter",
        CLUSTER,
        "dashboard-host: 0.0.0.0",
        "dashboard_host: 0.0.0.0",
        stored="rayStartParams[dashboard_host] (did you mean dashboard-host?); correct or remove",
        planned="unknown to Ray 2.60: spec.headGroupSpec.rayStartParams[dashboard_host] (did you",
    ),
    Wrong(
        "number",
        CLUSTER,
        "dashboard-host: 0.0.0.0",
        "num-cpus: 8",
        refused="rayStartParams.num-cpus in body must be of type string",
        planned="rayStartParams.num-cpus: must be a string and is an integer; put it in quotes",
    ),
    Wrong(
        "twice",
        CLUSTER,
        "  - groupName: small",
        _SAME,
        refused='spec.workerGroupSpecs[1]: Duplicate value: {"groupName":"small"}',
        planned="spec.workerGroupSpecs[1].groupName: 'small' names two groups; give each its own",
    ),
    Wrong(
        "bare",
        CLUSTER,
        _TEMPLATE,
        "",
        refused="spec.workerGroupSpecs[0].template: Required value",
        planned="spec.workerGroupSpecs[0].template: must be set",
    ),
    Wrong(
        "empty",
        CLUSTER,
        _CONTAINERS,
        "        containers: []\n",
        refused="spec.workerGroupSpecs[0].template: Invalid value: spec.containers needs at least",
        planned="template.spec.containers: needs at least one container, the Ray container",
    ),
    Wrong(
        "version",
        CLUSTER,
        "ray.io/v1",
        "ray.io/v2",
        refused='no matches for kind "RayCluster" in version "ray.io/v2"',
        planned="apiVersion: ray.io/v2 is not served; use ray.io/v1",
    ),
    Wrong(
        "kind",
        CLUSTER,
        "RayCluster",
        "Raycluster",
        refused='no matches for kind "Raycluster"',
        planned="left out Raycluster kind of ray.io/v1; did you mean RayCluster?",
    ),
    Wrong(
        "elsewhere",
        CLUSTER,
        "  name: NAME",
        "  name: NAME\n  namespace: staging",
        refused='namespaces "staging" not found',
        planned="metadata.namespace: there is no namespace 'staging'; create it first",
    ),
    Wrong(
        "bounds",
        CLUSTER,
        "minReplicas: 0",
        "minReplicas: 4",
        refused="minReplicas is larger than maxReplicas; lower minReplicas or raise maxReplicas",
        planned="spec.workerGroupSpecs[0].minReplicas: minReplicas is 4 and maxReplicas is 3;",
    ),
    Wrong(
        "above",
        CLUSTER,
        "replicas: 1",
        "replicas: 30",
        planned="spec.workerGroupSpecs[0].replicas: is 30, and maxReplicas is 3, so that the group",
    ),
    Wrong(
        "quantity",
        CLUSTER,
        'cpu: "1"',
        'cpu: "one"',
        stored="resources.requests[cpu]: 'one' is not a quantity like 500m",
        planned="resources.requests[cpu]: 'one' is not a quantity like 500m",
    ),
    Wrong(
        "image",
        CLUSTER,
        "          image: rayproject/ray:2.60.0\n          resources",
        "          images: rayproject/ray:2.60.0\n          resources",
        stored="containers[0].images (did you mean image?); correct or remove",
        planned="containers[0].images (did you mean image?); correct or remove",
    ),
    Wrong(
        "strategy",
        CLUSTER,
        "  rayVersion",
        "  upgradeStrategy: {type: RollingUpgrade}\n  rayVersion",
        refused='Unsupported value: "RollingUpgrade": supported values: "Recreate", "None"',
        planned="'RollingUpgrade' is none of RollingUpdate, Recreate and None",
    ),
    Wrong(
        "unnamed",
        CLUSTER,
        "groupName: small\n    replicas",
        "replicas",
        refused="spec.workerGroupSpecs[0].groupName: Required value",
        planned="spec.workerGroupSpecs[0].groupName: must be set",
    ),
    Wrong(
        "group",
        CLUSTER,
        "groupName: small",
        "groupName: Small_GPUs",
        refused="spec.workerGroupSpecs[0].groupName in body should match",
        planned="spec.workerGroupSpecs[0].groupName: must be 1 to 63 letters, digits, dashes or",
    ),
    Wrong(
        "nothing",
        JOB,
        "  entrypoint: python train.py\n",
        "",
        refused="spec: Invalid value: entrypoint must be set: it is the command that Ray runs",
        planned="spec.entrypoint: must be set: it is the command that Ray runs",
    ),
    Wrong(
        "ttl",
        JOB,
        "  shutdownAfterJobFinishes: true\n",
        "",
        refused="ttlSecondsAfterFinished needs shutdownAfterJobFinishes to be true; or leave it",
        planned="spec.ttlSecondsAfterFinished: needs spec.shutdownAfterJobFinishes to be true",
    ),
    Wrong(
        "mode",
        JOB,
        "  entrypoint",
        "  submissionMode: HTTP\n  entrypoint",
        refused=f'spec.submissionMode: Invalid value: "HTTP": must be one of {_MODES}',
        planned=f"spec.submissionMode: 'HTTP' is none of {_MODES}",
    ),
    Wrong(
        "selector",
        JOB,
        "  entrypoint",
        "  clusterSelector: {ray.io/cluster: shared}\n  backoffLimit: 3\n  entrypoint",
        refused="backoffLimit must be 0 with clusterSelector: retries need new clusters",
        planned="spec.backoffLimit: must be 0 with spec.clusterSelector: retries need new clusters",
    ),
    Wrong(
        "environment",
        JOB,
        "pip: [torch]",
        "pip: [torch",
        stored="spec.runtimeEnvYAML: is not YAML",
        planned="spec.runtimeEnvYAML: is not YAML",
    ),
    Wrong(
        "keys",
        JOB,
        "pip: [torch]",
        "env-vars: {A: b}",
        stored="spec.runtimeEnvYAML.env-vars (did you mean env_vars?)",
        planned="spec.runtimeEnvYAML.env-vars (did you mean env_vars?)",
    ),
    Wrong(
        "application",
        SERVICE,
        "import_path",
        "importpath",
        stored="applications[0] an import_path, such as `module:application`; it has importpath",
        planned="applications[0] an import_path, such as `module:application`; it has importpath",
    ),
    Wrong(
        "config",
        SERVICE,
        "    applications:\n",
        "    applications: [\n",
        stored="spec.serveConfigV2: is not YAML",
        planned="spec.serveConfigV2: is not YAML",
    ),
    Wrong(
        "upgrade",
        SERVICE,
        "  rayClusterConfig",
        "  upgradeStrategy: {type: Rolling}\n  rayClusterConfig",
        refused="must be one of NewCluster, NewClusterWithIncrementalUpgrade, None",
        planned="'Rolling' is none of NewCluster, NewClusterWithIncrementalUpgrade, None",
    ),
    Wrong(
        "hour",
        CRON,
        "30 3 * * 1-5",
        "30 25 * * 1-5",
        refused='"30 25 * * 1-5": must be five fields: minute (0-59), hour (0-23), day of month',
        planned="spec.schedule: hour '25' is not within 0 to 23",
    ),
    Wrong(
        "zone",
        CRON,
        "Europe/Paris",
        "Europe/Pariss",
        stored="spec.timeZone: 'Europe/Pariss' is not a time zone; give a name such as",
        planned="spec.timeZone: 'Europe/Pariss' is not a time zone; give a name such as",
    ),
)
