"""The `manta` command: one module for each subcommand, put together by `controller.__main__`.

`run`, `crds` and `planning` are the production commands. `development` holds `manta dev` and
`manta demo`; the production image leaves it and `controller.devcluster` out.
"""
