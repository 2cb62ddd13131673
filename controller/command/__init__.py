"""The `manta` command: one module a subcommand, put together by `controller.__main__`."""
