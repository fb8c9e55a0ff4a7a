"""`python -m weirnet` is the command `weir`."""

from ._command import main

main()
