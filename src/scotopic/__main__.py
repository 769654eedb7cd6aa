"""``python -m scotopic`` is the command ``scotopic``."""

from scotopic.cli import main

main()
