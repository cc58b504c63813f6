"""The loop that objectives/adapters/README.md shows for trainers without an adapter."""

import re
from pathlib import Path
from typing import Any

import objectives

GUIDE = Path(objectives.__file__).parent / "adapters" / "README.md"


def learn() -> Any:
    """The function `learn` of the guide."""
    (code,) = (
        text for text in re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.S) if "def learn" in text
    )
    assert len(code.splitlines()) <= 40
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return namespace["learn"]
