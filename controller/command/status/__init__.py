"""`manta status` and `manta why`: what objects of Ray are doing, and what made or deleted them.

Everything is read from the API server and no operator is asked, so that they know KubeRay's
objects as well. `reading` lists and watches, `tree` makes data of what was read, `run` prints it.
"""
