"""`manta status`, `manta why` and the web page: what objects of Ray do, what made or deleted them.

The commands read from the API server and ask no operator, so that they know KubeRay's objects as
well. `reading` lists and watches, `tree` makes data of what was read, `run` prints it. Of the page
`page` makes what its templates show, and `page_server` decides who may see it.
"""
