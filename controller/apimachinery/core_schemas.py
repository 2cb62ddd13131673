"""Schemas of the Kubernetes types that occur inside the `ray.io` kinds."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

from controller.apimachinery.schema import (
    Schema,
    anything,
    array,
    boolean,
    int32,
    int64,
    int_or_string,
    map_of,
    quantity,
    string,
    strings,
    struct,
    time,
    words,
)

_QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def pod_template(whose: str) -> Schema:
    """Return the schema of a pod template, kept as written; the API server checks it in pods.

    Only defaults in containers are described: Kueue compares containers with those in its Workload,
    where the API server has set the same defaults, and starts over for ever if they differ. An
    empty name, which Kubernetes gives references, is none for Kueue.
    """
    schema = anything(
        f"Pod template of {whose}. The first container is the Ray container. Fields are kept as "
        "they are: `kubectl explain pod.metadata` and `kubectl explain pod.spec` list them, and "
        "the condition FieldsKnown names those that do not exist."
    )
    return {**schema, "properties": {"spec": _pod_spec()}}


_CONTAINERS: Final = ("containers", "initContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


@cache
def _pod_spec() -> Schema:
    return _open("spec", {each: _containers(each) for each in _CONTAINERS})


def _containers(field: str) -> Schema:
    """Return the schema of a list of containers, of which only fields with defaults are known."""
    path = f"spec.{field}"
    port = _open(f"{path}.ports", {"protocol": string("Protocol of the port.", default="TCP")})
    ports = _nullable(array("Ports of the container.", port))
    known = {"ports": ports, "env": _variables(f"{path}.env")}
    known |= {name: _probe(f"{path}.{name}") for name in _PROBES}
    return _nullable(array("Containers of the pods.", _open(path, known)))


def _variables(path: str) -> Schema:
    optional = boolean("Whether file or key may be missing.", default=False)
    key = _open(f"{path}.valueFrom.fileKeyRef", {"optional": optional})
    variable = _open(path, {"valueFrom": _open(f"{path}.valueFrom", {"fileKeyRef": key})})
    return _nullable(array("Environment variables.", variable))


def _probe(path: str) -> Schema:
    service = string("Name of the service, for a server of several.", default="")
    return _open(path, {"grpc": _open(f"{path}.grpc", {"service": service})})


def _open(path: str, properties: dict[str, Schema]) -> Schema:
    """Return the schema of a part of a pod, with these and any other fields."""
    explained = anything(f"`kubectl explain pod.{path}` lists the fields.")
    return _nullable({**explained, "properties": properties})


def _nullable(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def variable_source() -> Schema:
    """Return the schema of `env[].valueFrom`."""
    optional = boolean("Whether the object or its key may be missing.")

    def key_of(kind: str) -> Schema:
        return struct(
            f"A key of a {kind} in the pod's namespace.",
            {
                "name": string(f"Name of the {kind}.", default=""),
                "key": string("The key to select."),
                "optional": optional,
            },
            required=["key"],
            atomic=True,
        )

    return struct(
        "Where the value comes from, if it is not written out.",
        {
            "configMapKeyRef": key_of("ConfigMap"),
            "secretKeyRef": key_of("Secret"),
            "fieldRef": struct(
                "A field of the pod.",
                {
                    "apiVersion": string("Version of the schema of the path, v1 if not given."),
                    "fieldPath": string("Path of the field, such as metadata.name."),
                },
                required=["fieldPath"],
                atomic=True,
            ),
            "fileKeyRef": struct(
                "A key in an environment file inside a volume.",
                {
                    "volumeName": string("Volume that holds the file."),
                    "path": string("Path of the file inside the volume."),
                    "key": string("The key to select."),
                    "optional": boolean("Whether file or key may be missing.", default=False),
                },
                required=["key", "path", "volumeName"],
                atomic=True,
            ),
            "resourceFieldRef": struct(
                "A resource of a container.",
                {
                    "containerName": string("Name of the container."),
                    "resource": string("Which resource, such as limits.cpu."),
                    "divisor": quantity("Unit in which the resource is given, 1 if not given."),
                },
                required=["resource"],
                atomic=True,
            ),
        },
    )


def environment(whose: str) -> Schema:
    """Return the schema of `env`."""
    entry = struct(
        "One environment variable.",
        {
            "name": string("Name of the variable."),
            "value": string("Its value; $(NAME) refers to other variables."),
            "valueFrom": variable_source(),
        },
        required=["name"],
    )
    return array(f"Environment variables of {whose}.", entry)


def environment_from(whose: str) -> Schema:
    """Return the schema of `envFrom`."""

    def all_of(kind: str) -> Schema:
        return struct(
            f"All keys of a {kind}.",
            {
                "name": string(f"Name of the {kind}.", default=""),
                "optional": boolean(f"Whether the {kind} may be missing."),
            },
            atomic=True,
        )

    source = struct(
        "One source of variables.",
        {
            "prefix": string("Put before the name of each variable."),
            "configMapRef": all_of("ConfigMap"),
            "secretRef": all_of("Secret"),
        },
    )
    return array(f"Sources of environment variables of {whose}.", source)


def volume_mounts(whose: str) -> Schema:
    """Return the schema of `volumeMounts`."""
    mount = struct(
        "One mounted volume.",
        {
            "name": string("Name of the volume."),
            "mountPath": string("Where it is mounted in the container."),
            "mountPropagation": string("How mounts are propagated between host and container."),
            "readOnly": boolean("Whether it is mounted read-only."),
            "recursiveReadOnly": string("Whether mounts below it are read-only as well."),
            "subPath": string("Path inside the volume that is mounted, its root if not given."),
            "subPathExpr": string("Like subPath, with $(NAME) for environment variables."),
        },
        required=["mountPath", "name"],
    )
    return array(f"Volumes mounted into {whose}.", mount)


def resource_requirements(whose: str) -> Schema:
    """Return the schema of `resources` of a container."""
    claim = struct(
        "A claim of the pod that the container uses.",
        {
            "name": string("Name of the entry in the pod's resourceClaims."),
            "request": string("Name of one request in the claim; all of them if not given."),
        },
        required=["name"],
    )
    return struct(
        f"Compute resources of {whose}.",
        {
            "claims": array("Resource claims that the container uses.", claim, keys=["name"]),
            "limits": map_of("The most that may be used.", quantity("An amount.")),
            "requests": map_of("The least that is set aside.", quantity("An amount.")),
        },
    )


def security_context(whose: str) -> Schema:
    """Return the schema of `securityContext` of a container."""

    def profile(kind: str) -> Schema:
        return struct(
            f"{kind} profile of the container.",
            {
                "type": string("RuntimeDefault, Localhost or Unconfined."),
                "localhostProfile": string("Profile on the node, with type Localhost."),
            },
            required=["type"],
        )

    return struct(
        f"Security settings of {whose}.",
        {
            "allowPrivilegeEscalation": boolean("Whether a process may gain privileges."),
            "appArmorProfile": profile("AppArmor"),
            "capabilities": struct(
                "Capabilities added to and dropped from the default ones.",
                {
                    "add": words("Capabilities added.", atomic=True),
                    "drop": words("Capabilities dropped.", atomic=True),
                },
            ),
            "privileged": boolean("Whether processes are equal to root on the node."),
            "procMount": string("How /proc is mounted."),
            "readOnlyRootFilesystem": boolean("Whether the root file system is read-only."),
            "runAsGroup": int64("Group id of the processes."),
            "runAsNonRoot": boolean("Whether the container must not run as root."),
            "runAsUser": int64("User id of the processes."),
            "seLinuxOptions": struct(
                "SELinux context of the container.",
                {
                    "level": string("SELinux level."),
                    "role": string("SELinux role."),
                    "type": string("SELinux type."),
                    "user": string("SELinux user."),
                },
            ),
            "seccompProfile": profile("Seccomp"),
            "windowsOptions": struct(
                "Settings of Windows containers.",
                {
                    "gmsaCredentialSpec": string("GMSA credential specification."),
                    "gmsaCredentialSpecName": string("Name of the GMSA credential specification."),
                    "hostProcess": boolean("Whether it runs as a host process container."),
                    "runAsUserName": string("User name of the processes."),
                },
            ),
        },
    )


def object_metadata() -> Schema:
    """Return the schema of `metadata` of an object inside another one."""
    return struct(
        "Metadata.",
        {
            "annotations": strings("Annotations."),
            "finalizers": words("Finalizers."),
            "labels": strings("Labels."),
            "name": string("Name."),
            "namespace": string("Ignored: the namespace is that of the cluster."),
        },
    )


def service(description: str) -> Schema:
    """Return the schema of a Service."""
    port = struct(
        "One port.",
        {
            "appProtocol": string("Protocol spoken on the port."),
            "name": string("Name of the port."),
            "nodePort": int32("Port on every node, with type NodePort or LoadBalancer."),
            "port": int32("Port of the service."),
            "protocol": string("TCP, UDP or SCTP.", default="TCP"),
            "targetPort": int_or_string("Port of the pods, or its name."),
        },
        required=["port"],
    )
    spec = struct(
        "Specification of the service.",
        {
            "allocateLoadBalancerNodePorts": boolean("Whether a LoadBalancer gets node ports."),
            "clusterIP": string("IP address of the service; None for a headless one."),
            "clusterIPs": words("All IP addresses of the service.", atomic=True),
            "externalIPs": words("Addresses outside for which nodes accept traffic.", atomic=True),
            "externalName": string("DNS name to which the service redirects."),
            "externalTrafficPolicy": string("How traffic from outside is spread."),
            "healthCheckNodePort": int32("Node port of health checks."),
            "internalTrafficPolicy": string("How traffic from inside is spread."),
            "ipFamilies": words("IPv4 and IPv6, in order.", atomic=True),
            "ipFamilyPolicy": string("Whether the service has one or two IP families."),
            "loadBalancerClass": string("Which load balancer implementation serves it."),
            "loadBalancerIP": string("Address wanted from the load balancer."),
            "loadBalancerSourceRanges": words("Client addresses that are let in.", atomic=True),
            "ports": array(
                "Ports; those of the head that are missing are added.",
                port,
                keys=["port", "protocol"],
            ),
            "publishNotReadyAddresses": boolean("Whether pods that are not ready are included."),
            "selector": {
                **strings("Ignored: the service selects the head pod."),
                "x-kubernetes-map-type": "atomic",
            },
            "sessionAffinity": string("ClientIP or None."),
            "sessionAffinityConfig": struct(
                "Settings of session affinity.",
                {
                    "clientIP": struct(
                        "Settings of affinity by client address.",
                        {"timeoutSeconds": int32("How long a client stays with a pod.")},
                    )
                },
            ),
            "trafficDistribution": string("Which endpoints are preferred."),
            "type": string("ClusterIP, NodePort, LoadBalancer or ExternalName."),
        },
    )
    return struct(
        description,
        {
            "apiVersion": string("Ignored."),
            "kind": string("Ignored."),
            "metadata": object_metadata(),
            "spec": spec,
            "status": anything("Ignored."),
        },
    )


def ingress_tls() -> Schema:
    """Return the schema of `tls` of an Ingress."""
    entry = struct(
        "Hosts served with one certificate.",
        {
            "hosts": words("Hosts in the certificate.", atomic=True),
            "secretName": string("Secret that holds the certificate."),
        },
    )
    return array("TLS settings of the ingress.", entry)


def network_rules(direction: str) -> Schema:
    """Return the schema of `ingress` (`from`) or `egress` (`to`) rules of a NetworkPolicy."""
    peer_field = "from" if direction == "ingress" else "to"
    port = struct(
        "A port.",
        {
            "port": int_or_string("Number or name of the port; all ports if not given."),
            "endPort": int32("Last port of a range that begins with port."),
            "protocol": string("TCP, UDP or SCTP."),
        },
    )
    peer = struct(
        "Who is at the other end.",
        {
            "ipBlock": struct(
                "Addresses.",
                {
                    "cidr": string("A block of addresses."),
                    "except": words("Blocks that do not belong to it.", atomic=True),
                },
                required=["cidr"],
            ),
            "namespaceSelector": label_selector("Namespaces."),
            "podSelector": label_selector("Pods."),
        },
    )
    rule = struct(
        f"One {direction} rule: what it names is let through.",
        {
            "ports": array("Ports; all if empty.", port, atomic=True),
            peer_field: array("Peers; all if empty.", peer, atomic=True),
        },
    )
    return array(f"Additional {direction} rules.", rule)


def label_selector(description: str) -> Schema:
    """Return the schema of a label selector."""
    requirement = struct(
        "One requirement.",
        {
            "key": string("Key of the label."),
            "operator": string("In, NotIn, Exists or DoesNotExist."),
            "values": words("Values for In and NotIn.", atomic=True),
        },
        required=["key", "operator"],
    )
    return struct(
        description,
        {
            "matchExpressions": array("All must be met.", requirement, atomic=True),
            "matchLabels": strings("All must be there."),
        },
        atomic=True,
    )


def conditions(whose: str = "the cluster") -> Schema:
    """Return the schema of `status.conditions`."""
    condition = struct(
        "One condition.",
        {
            "type": string("What it is about.", maxLength=316, pattern=_QUALIFIED_NAME),
            "status": string("Whether it holds.", enum=["True", "False", "Unknown"]),
            "reason": string(
                "Why, in one word.",
                maxLength=1024,
                minLength=1,
                pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            ),
            "message": string("Why, in words.", maxLength=32768),
            "lastTransitionTime": time("When status last changed."),
            "observedGeneration": int64("Generation that it was computed from.", minimum=0),
        },
        required=["lastTransitionTime", "message", "reason", "status", "type"],
    )
    return array(f"What is known about {whose}, one entry a type.", condition, keys=["type"])


def add_conditions(schema: Any) -> None:
    """Give every empty schema of a property `conditions` that of all conditions, in place."""
    match schema:
        case dict():
            parts = cast("dict[str, Any]", schema)
            if parts.get("conditions") == {}:
                parts["conditions"] = conditions("the object")
            add_conditions(list(parts.values()))
        case list():
            for part in cast("list[Any]", schema):
                add_conditions(part)
        case _:
            pass
