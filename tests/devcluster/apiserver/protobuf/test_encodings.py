"""The encoding of every built-in type, field by field.

`encodings.txt` has a digest of each type: of the wire form of an object with a value in every
field, and of the fields that Go's JSON shows though they are zero. They were taken when the codec
agreed with what Kubernetes publishes: `test_published_data.py` for `k8s.io/api`, the numbers in
`generated.proto` for CustomResourceDefinitions. After a change of the table compare again, then run
`python -m tests.devcluster.apiserver.protobuf.test_encodings`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from devcluster.apiserver.builtin_types import table
from devcluster.apiserver.protobuf import read_message
from tests.devcluster.apiserver.protobuf.encoder import bytes_field, varint_field, write_message
from tests.devcluster.apiserver.protobuf.filled import filled, zeros

ENCODINGS = Path(__file__).with_name("encodings.txt")


def digests() -> dict[str, str]:
    return {type_: _digest(type_) for type_ in sorted(table())}


def _digest(type_: str) -> str:
    shown = read_message(type_, write_message(type_, zeros(type_)))
    form = write_message(type_, filled(type_)) + " ".join(sorted(shown)).encode()
    return hashlib.sha256(form).hexdigest()[:16]


def test_each_type_is_encoded_as_it_was_when_it_was_compared_with_published_data():
    known = dict(line.split() for line in ENCODINGS.read_text().splitlines())
    now = digests()
    assert now.keys() == known.keys()
    changed = [type_ for type_ in known if now[type_] != known[type_]]
    assert sorted(changed, key=lambda type_: len(str(filled(type_)))) == []


def test_an_object_of_any_type_with_all_fields_comes_back_as_it_was():
    objects = {type_: filled(type_) for type_ in table()}
    back = {type_: read_message(type_, write_message(type_, objects[type_])) for type_ in objects}
    assert [type_ for type_ in objects if back[type_] != objects[type_]] == []


def test_fields_of_every_wire_type_that_no_table_knows_are_skipped():
    unknown = (
        varint_field(1000, 7)
        + bytes_field(1001, b"a")
        + b"\xd1\x3e12345678"  # 1002, 8 bytes
        + b"\xdd\x3e1234"  # 1003, 4 bytes
    )
    body = write_message("Container", filled("Container"))
    assert read_message("Container", unknown + body + unknown) == filled("Container")


def test_a_packed_list_of_numbers_is_the_list_of_its_numbers():
    apart = write_message("PodSecurityContext", {"supplementalGroups": [1, 300, -1]})
    numbers = b"\x01\xac\x02" + b"\xff" * 9 + b"\x01"
    packed = bytes_field(4, numbers)
    assert read_message("PodSecurityContext", apart) == {"supplementalGroups": [1, 300, -1]}
    assert read_message("PodSecurityContext", packed) == {"supplementalGroups": [1, 300, -1]}


if __name__ == "__main__":
    ENCODINGS.write_text("".join(f"{type_} {digest}\n" for type_, digest in digests().items()))
