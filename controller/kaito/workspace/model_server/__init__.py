"""The model server of a Workspace: its objects, its readiness and its benchmark."""
