"""The protobuf encoding of built-in kinds, which Go clients speak by default.

Only the encoding differs: requests are decoded into the JSON that the same Go type would give, and
answers are encoded from it. Custom resources have no protobuf encoding, as upstream.
"""

from controller.devcluster.apiserver.protobuf.envelope import (
    MEDIA_TYPE,
    STREAM_MEDIA_TYPE,
    decode_protobuf,
    encode_event,
    encode_protobuf,
)
from controller.devcluster.apiserver.protobuf.wire import ProtobufError

__all__ = [
    "MEDIA_TYPE",
    "STREAM_MEDIA_TYPE",
    "ProtobufError",
    "decode_protobuf",
    "encode_event",
    "encode_protobuf",
]
