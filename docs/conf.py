"""The site: Sphinx over MyST, built without a network; `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "build_site"))
sys.path.insert(0, str(HERE.parent))

from objectives.version import VERSION  # noqa: E402

project = "rlzoo"
author = "the authors of rlzoo"
copyright = "the authors of rlzoo"
version = release = VERSION
extensions = ["myst_nb", "sphinx.ext.autodoc", "extension"]
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
exclude_patterns = ["_build", "build_site", "**/.ipynb_checkpoints"]
nb_execution_mode = "off"  # the tests execute the lessons; here stands what they left
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]
html_theme = "furo"
html_title = "rlzoo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_copy_source = False
html_show_sphinx = False
highlight_language = "text"
