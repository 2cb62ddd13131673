"""A Kubernetes API server in one process, for `manta dev`, tests and simulation.

`ApiServer.request` answers requests in process; `devcluster.apiserver.http.serve` puts
it on a port for kubectl.
"""

from devcluster.apiserver.authorization import Attributes
from devcluster.apiserver.server import ApiServer
from devcluster.apiserver.store import StoredEvent

__all__ = ["ApiServer", "Attributes", "StoredEvent"]
