"""The options that a ConfigMap holds for a model server or a tuning.

Any user who may write ConfigMaps controls them, so their size is limited before they are read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_mapping
from controller.kaito.api.fields import FieldError, invalid_value, missing_field, wrong
from controller.kaito.presets.models import Model
from controller.kube.objects import KubeObject, View
from controller.kube.resources import Resource

INFERENCE_KEY: Final = "inference_config.yaml"
TRAINING_KEY: Final = "training_config.yaml"
_LENGTH: Final = "max-model-len"
_SECTIONS: Final = frozenset(
    {
        *("ModelConfig", "QuantizationConfig", "LoraConfig"),
        *("TrainingArguments", "DatasetConfig", "DataCollator"),
    }
)
_OUTPUT: Final = "/mnt"
_LIMITS: Final = YamlLimits(64 * 1024, values=5000, remedy="; shorten it")
_MOST_DIGITS: Final = 18
"""Maximum digits of a number of tokens to read."""

_GO_TYPES: Final[dict[type, str]] = {
    str: "string",
    int: "int",
    float: "float64",
    list: "[]interface {}",
    dict: "map[interface {}]interface {}",
}
_BITS: Final = ("load_in_4bit", "load_in_8bit")


def missing_config_error(name: str, namespace: str) -> FieldError:
    """Return the error of a ConfigMap that does not exist."""
    message = f"ConfigMap '{name}' specified in 'config' not found in namespace '{namespace}'"
    return wrong(message, "config")


def read_options(text: str, *, scalars_as_text: bool = False) -> dict[str, Any]:
    """Return the options; numbers of a server's as they are written, because Kaito has words.

    Raises:
        InvalidYaml: they cannot be read, or are too many; the message is a predicate.
    """
    return read_yaml_mapping(text, _LIMITS, scalars_as_text=scalars_as_text)


def longest_context(data: Mapping[str, str]) -> int | None:
    """Return the `max-model-len` that the options set, None if they set none that can be."""
    try:
        options = read_options(data.get(INFERENCE_KEY, ""), scalars_as_text=True)
    except InvalidYaml:
        return None
    text = _max_model_len(options.get("vllm"))
    return int(text) or None if _is_number(text) and len(text) <= _MOST_DIGITS else None


def inference_config_errors(data: Mapping[str, str], model: Model | None) -> Iterator[FieldError]:
    """Yield errors of the options of a model server."""
    vllm = _section_of(data, INFERENCE_KEY, "vllm", _unparsable)
    if isinstance(vllm, FieldError):
        yield vllm
        return
    if not _are_words(vllm):
        yield _unparsable("vllm must map names to words")
        return
    length = _max_model_len(vllm)
    if length and model is not None:
        yield from _length_errors(length, model.token_limit)


def training_config_errors(
    name: str, namespace: str, data: Mapping[str, str], method: str
) -> Iterator[FieldError]:
    """Yield errors of the options of a tuning."""
    sections = _section_of(data, TRAINING_KEY, "training_config", _invalid)
    if isinstance(sections, FieldError):
        yield sections
        return
    if not isinstance(sections, dict):
        yield _invalid("Expected 'training_config' key to contain a map")
        return
    sections = cast("dict[str, Any]", sections)
    for section in sections.keys() - _SECTIONS:
        yield _invalid(f"Unrecognized section: {section}")
    quantization = mapping(sections.get("QuantizationConfig"))
    yield from _quantization_errors(name, quantization, method.lower())
    where = f"in ConfigMap '{name}' in namespace '{namespace}'"
    yield from _output_errors(mapping(sections.get("TrainingArguments")), where)


def _section_of(
    data: Mapping[str, str], key: str, section: str, refuse: Callable[[str], FieldError]
) -> Any:
    """Return one section of the options under a key, or the error why there is none."""
    text = data.get(key)
    if text is None:
        return missing_field(f"{key} in ConfigMap")
    try:
        return read_options(text, scalars_as_text=key == INFERENCE_KEY).get(section)
    except InvalidYaml as error:
        return refuse(f"it {error}")


def _quantization_errors(
    name: str, section: Mapping[str, Any], method: str
) -> Iterator[FieldError]:
    bits = {bit: section.get(bit) for bit in _BITS}
    odd = [bit for bit, value in bits.items() if not isinstance(value, bool | None)]
    for bit in odd:
        kind = _GO_TYPES[type(bits[bit])]
        yield invalid_value(f"value must be either nil or a boolean, got type {kind}", bit)
    if odd:
        return
    path = "QuantizationConfig"
    if all(bits.values()):
        message = "Cannot set both 'load_in_4bit' and 'load_in_8bit' to true in ConfigMap"
        yield wrong(f"{message} '{name}'", path)
    elif method == "lora" and any(bits.values()):
        message = "For method 'lora', 'load_in_4bit' or 'load_in_8bit' in ConfigMap"
        yield wrong(f"{message} '{name}' must not be true", path)
    elif method == "qlora" and not any(bits.values()):
        yield missing_field(
            "For method 'qlora', either 'load_in_4bit' or 'load_in_8bit' must be true in "
            f"ConfigMap '{name}'",
            path,
        )


def _output_errors(section: Mapping[str, Any], where: str) -> Iterator[FieldError]:
    """Yield the error of results that are not written below a volume."""
    folder = section.get("output_dir")
    if "output_dir" not in section:
        return
    if not isinstance(folder, str):
        yield invalid_value(f"output_dir is not a string {where}", "output_dir")
    elif not posixpath.normpath(f"{_OUTPUT}/{folder}").startswith(f"{_OUTPUT}/"):
        message = f"Invalid output_dir specified: '{folder}', must be a directory"
        yield invalid_value(message, "output_dir")


def _length_errors(length: str, limit: int) -> Iterator[FieldError]:
    digits = length.removeprefix("-").removeprefix("+")
    if not _is_number(digits):
        why = f'strconv.Atoi: parsing "{length}": invalid syntax'
        yield invalid_value(f"max-model-len must be an integer: {why}", _LENGTH)
    elif len(digits) > _MOST_DIGITS or int(length) > limit:
        limited = f"exceeds model's maximum supported context window {limit} (ModelTokenLimit)"
        yield invalid_value(f"max-model-len {length} {limited}", _LENGTH)


def _max_model_len(vllm: Any) -> str:
    return str(mapping(vllm).get(_LENGTH) or "").strip()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _invalid(why: str) -> FieldError:
    return invalid_value(why, TRAINING_KEY)


def _unparsable(why: str) -> FieldError:
    return wrong(f"Failed to parse {INFERENCE_KEY}: {why}", INFERENCE_KEY)


def _are_words(value: Any) -> bool:
    """Return whether a value maps names to single values, which Kaito reads as words."""
    if value is None:
        return True
    if not isinstance(value, dict):
        return False
    values = cast("dict[Any, Any]", value).values()
    return not any(isinstance(each, dict | list) for each in values)


class OptionTexts(View, frozen=True):
    """`data`, of which two keys count."""

    inference: str | None = msgspec.field(default=None, name=INFERENCE_KEY)
    training: str | None = msgspec.field(default=None, name=TRAINING_KEY)


class OptionsMap(KubeObject, frozen=True):
    """A ConfigMap."""

    data: OptionTexts | None = None

    @property
    def texts(self) -> dict[str, str]:
        """Those of the two keys that it has."""
        found = self.data or OptionTexts()
        pairs = ((INFERENCE_KEY, found.inference), (TRAINING_KEY, found.training))
        return {key: text for key, text in pairs if text is not None}


OPTIONS_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", OptionsMap, part="options")
