"""`python -m rlzoo` is `rlzoo`."""

from rlzoo.cli import main

raise SystemExit(main())
