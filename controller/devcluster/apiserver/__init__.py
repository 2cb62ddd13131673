"""A Kubernetes API server in one process, for `manta dev`, tests and simulation.

`ApiServer.request` answers requests in process; `controller.devcluster.apiserver.http.serve` puts
it on a port for kubectl.
"""

from controller.devcluster.apiserver.authorization import Attributes
from controller.devcluster.apiserver.server import ApiServer
from controller.devcluster.apiserver.store import StoredEvent

__all__ = ["ApiServer", "Attributes", "StoredEvent"]
