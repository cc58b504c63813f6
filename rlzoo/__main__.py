"""`python -m rlzoo` is `rlzoo`."""

from rlzoo.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
