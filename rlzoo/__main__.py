"""`python -m rlzoo` is `rlzoo`."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[0] == os.getcwd() != str(Path(__file__).parents[1]):
        del sys.path[0]  # put there by -m: a file there that is called as a package would be imported for it

    from rlzoo.commands import main

    raise SystemExit(main())
