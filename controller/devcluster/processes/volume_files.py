"""Files of volumes that come from API objects: paths, contents and modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.processes.environment import (
    ACCOUNT,
    AUTHORITY,
    CONFIG_MAP,
    SECRET,
    AccountToken,
    InvalidConfiguration,
    SourceReference,
    UnsupportedFieldReference,
    field_value,
    resource_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.devcluster.processes.environment import DownwardValues
    from controller.devcluster.processes.specification import (
        ConfigMapSource,
        DownwardSource,
        KeyToPath,
        Projection,
        SecretSource,
        SpecifiedPod,
        TokenSource,
        Volume,
    )
    from controller.kube.objects import ObjectMeta

    Sources = Mapping[SourceReference, Mapping[str, bytes] | None]


_USUAL_MODE = 0o644


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """One file of a volume."""

    data: bytes
    mode: int


def is_made_of_objects(volume: Volume) -> bool:
    """Return whether `volume_files` gives the contents of this volume."""
    return bool(volume.config_map or volume.secret or volume.downward_api or volume.projected)


def volume_sources(volume: Volume, pod: SpecifiedPod) -> frozenset[SourceReference]:
    """Return the objects that `volume` of a pod uses."""
    return frozenset(_sources(volume, pod))


def _sources(volume: Volume, pod: SpecifiedPod) -> Iterator[SourceReference]:
    if volume.config_map:
        yield SourceReference(CONFIG_MAP, volume.config_map.name)
    if volume.secret:
        yield SourceReference(SECRET, volume.secret.secret_name)
    for projection in volume.projected.sources if volume.projected else ():
        if projection.config_map:
            yield SourceReference(CONFIG_MAP, projection.config_map.name)
        if projection.secret:
            yield SourceReference(SECRET, projection.secret.name)
        if projection.service_account_token:
            yield _token(projection.service_account_token, pod)
        if projection.cluster_trust_bundle:
            yield SourceReference(AUTHORITY, "")


def volume_files(
    volume: Volume, pod: SpecifiedPod, meta: ObjectMeta, downward: DownwardValues, sources: Sources
) -> dict[str, VolumeFile]:
    """Return the files of a volume by relative path.

    Args:
        volume: one for which `is_made_of_objects` holds.
        pod: pod of the volume.
        meta: the pod's present metadata.
        downward: values that the machine adds.
        sources: the data of all `volume_sources`, None for those that do not exist.

    Raises:
        BadConfiguration: an object or key that is not optional is missing.
    """
    found: dict[str, VolumeFile] = {}
    if volume.config_map:
        found |= _config_map(volume.config_map, sources, _mode(volume.config_map.default_mode))
    if volume.secret:
        name = volume.secret.secret_name
        found |= _secret(volume.secret, name, sources, _mode(volume.secret.default_mode))
    if volume.downward_api:
        mode = _mode(volume.downward_api.default_mode)
        found |= _downward(volume.downward_api, pod, meta, downward, mode)
    if volume.projected:
        mode = _mode(volume.projected.default_mode)
        for part in volume.projected.sources:
            if part.downward_api:
                found |= _downward(part.downward_api, pod, meta, downward, mode)
            else:
                found |= _projected(part, pod, sources, mode)
    return found


def _projected(
    part: Projection, pod: SpecifiedPod, sources: Sources, mode: int
) -> dict[str, VolumeFile]:
    if part.config_map:
        return _config_map(part.config_map, sources, mode)
    if part.secret:
        return _secret(part.secret, part.secret.name, sources, mode)
    if part.service_account_token:
        token = _only(_token(part.service_account_token, pod), sources)
        return {part.service_account_token.path: VolumeFile(token, mode)}
    if part.cluster_trust_bundle:
        authority = _only(SourceReference(AUTHORITY, ""), sources)
        return {part.cluster_trust_bundle.path: VolumeFile(authority, mode)}
    return {}


def _mode(given: int | None) -> int:
    return _USUAL_MODE if given is None else given


def _config_map(reference: ConfigMapSource, sources: Sources, mode: int) -> dict[str, VolumeFile]:
    source = SourceReference(CONFIG_MAP, reference.name)
    return _chosen(source, reference.items, sources, mode, optional=reference.optional)


def _secret(
    reference: SecretSource, name: str, sources: Sources, mode: int
) -> dict[str, VolumeFile]:
    source = SourceReference(SECRET, name)
    return _chosen(source, reference.items, sources, mode, optional=reference.optional)


def _chosen(
    source: SourceReference,
    items: tuple[KeyToPath, ...],
    sources: Sources,
    mode: int,
    *,
    optional: bool,
) -> dict[str, VolumeFile]:
    data = sources[source]
    if data is None:
        if optional:
            return {}
        raise InvalidConfiguration(f"{source} not found")
    if not items:
        return {key: VolumeFile(value, mode) for key, value in data.items()}
    found: dict[str, VolumeFile] = {}
    for item in items:
        if item.key in data:
            found[item.path] = VolumeFile(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise InvalidConfiguration(f"{source} references non-existent key: {item.key}")
    return found


def _downward(
    reference: DownwardSource,
    pod: SpecifiedPod,
    meta: ObjectMeta,
    downward: DownwardValues,
    mode: int,
) -> dict[str, VolumeFile]:
    found: dict[str, VolumeFile] = {}
    for item in reference.items:
        try:
            if item.field_ref:
                value = field_value(item.field_ref, pod, meta, downward)
            elif item.resource_field_ref:
                value = resource_value(item.resource_field_ref, pod, None, downward)
            else:
                continue
        except UnsupportedFieldReference as error:
            raise InvalidConfiguration(f"{item.path}: {error}") from error
        found[item.path] = VolumeFile(value.encode(), mode if item.mode is None else item.mode)
    return found


def _token(token: TokenSource, pod: SpecifiedPod) -> AccountToken:
    account = pod.spec.service_account_name or "default"
    meta = pod.metadata
    return AccountToken(ACCOUNT, account, meta.name, meta.uid, token.audience)


def _only(source: SourceReference, sources: Sources) -> bytes:
    """Return the data of a source that has one key."""
    data = sources[source]
    if data is None:
        raise InvalidConfiguration(f"{source} not found")
    (value,) = data.values()
    return value
