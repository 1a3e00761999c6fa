"""So that `python -m bcdm` and `torchrun -m bcdm` work."""

from bcdm.commands import main

if __name__ == "__main__":
    main()
