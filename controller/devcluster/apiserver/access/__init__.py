"""Access to the embedded API server: users, tokens, RBAC, and the guard of its port.

Servers without a network need none of it: a caller of the object is the administrator.
"""

from controller.devcluster.apiserver.access.guard import Guard, Refused
from controller.devcluster.apiserver.access.rbac import Rbac
from controller.devcluster.apiserver.access.tokens import TokenIssuer
from controller.devcluster.apiserver.access.users import ADMIN, User

__all__ = ["ADMIN", "Guard", "Rbac", "Refused", "TokenIssuer", "User"]
