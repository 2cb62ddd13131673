"""Writes the mutants below the folder in which it is started, in as many processes as told.

mutmut reads the configuration of that folder as soon as it is imported.
"""

from __future__ import annotations

import sys

from mutmut.__main__ import copy_also_copy_files, copy_src_dir, create_mutants

if __name__ == "__main__":
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(int(sys.argv[1]))
