"""``python -m placement_viz.capture SCRIPT``: the ``capture`` command."""

from __future__ import annotations

import sys

from placement_viz.commands import main

if __name__ == "__main__":
    sys.exit(main(["capture", *sys.argv[1:]]))
