"""The web page of `manta dev` and of the operator: what `manta status` shows, as HTML.

`content` makes values for the templates of what was read, and `server` answers those who may see
them. Nothing can be changed here, and no program runs in the browser.
"""
