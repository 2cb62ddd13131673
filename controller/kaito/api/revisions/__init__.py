"""Revisions of a Workspace: their hash, which is Kaito's, and the object that stores one."""
