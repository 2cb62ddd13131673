"""`manta run`: the operator as a process, its election, and its checks before and during work."""
