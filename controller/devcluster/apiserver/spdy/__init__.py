"""SPDY/3.1 as far as `kubectl port-forward` speaks it: streams with headers, without flow control.

The Go library of Kubernetes' clients neither sends nor heeds window updates.
"""

from controller.devcluster.apiserver.spdy.connection import SpdyConnection, SpdyStream
from controller.devcluster.apiserver.spdy.frames import SpdyError

__all__ = ["SpdyConnection", "SpdyError", "SpdyStream"]
