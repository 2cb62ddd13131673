"""The `manta` command: `cli` holds the arguments, the modules beside it what each subcommand does.

`run`, `crds` and `planning` are the production commands. `development` holds `manta dev`, and what
`manta demo` shares with it; the production image leaves it, `devcluster` and `demos` out.
"""

from controller.command.process import end_on_sigterm

end_on_sigterm()  # before the other modules are loaded
