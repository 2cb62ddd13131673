"""SPDY/3.1 as far as Kubernetes' clients speak it: streams with headers, without windows.

Their Go library neither sends nor obeys window updates; TCP makes each side wait for the other.
"""

from controller.devcluster.apiserver.streams.spdy.connection import SpdyConnection, SpdyStream
from controller.devcluster.apiserver.streams.spdy.frames import SpdyError

__all__ = ["SpdyConnection", "SpdyError", "SpdyStream"]
