"""`python -m rlzoo` is `rlzoo`."""

from rlzoo.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
