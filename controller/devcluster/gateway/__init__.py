"""The Gateway API of the embedded cluster: its definitions, and a controller for one class."""
