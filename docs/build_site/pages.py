"""Every page that is made from the code."""

from pathlib import Path

import evidence_pages
import interface
import key_pages
import method_pages
from links import MIRRORED, mirror


def write_pages(folder: Path) -> None:
    """Writes the generated pages into `folder` of the site."""
    for name in MIRRORED:
        mirror(name, folder.parent)
    method_pages.write(folder / "methods")
    key_pages.write(folder)
    evidence_pages.write(folder)
    interface.write(folder)
