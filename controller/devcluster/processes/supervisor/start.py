"""Entry point for an isolated interpreter: finds the package and starts."""

import sys

sys.path.insert(0, __file__.rsplit("/", 5)[0])
from controller.devcluster.processes.supervisor.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
