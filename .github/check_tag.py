"""Whether a tag, the version and the change log agree: python .github/check_tag.py v0.1.0"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def disagreement(tag: str, version: str, log: str) -> str:
    """What is wrong, and what to do; empty where all agree."""
    if tag != f"v{version}":
        return f"the tag is {tag}, and objectives/version.py says {version}; tag v{version}, or change it there first"
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", log, re.MULTILINE):
        return f"CHANGELOG.md has no heading '## {version} - YYYY-MM-DD'; what stands under Unreleased belongs there"
    if re.search(r"^## Unreleased\n+(?!\n*## |\Z)", log, re.MULTILINE):
        return f"CHANGELOG.md has changes under Unreleased; what is in {version} belongs under its heading"
    return ""


def main(tag: str) -> None:
    """Ends with a line and status 1 where they do not agree."""
    (version,) = re.findall(r'^VERSION = "(.+)"$', (ROOT / "objectives" / "version.py").read_text(), re.MULTILINE)
    sys.exit(disagreement(tag, version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")) or 0)


if __name__ == "__main__":
    main(sys.argv[1])
