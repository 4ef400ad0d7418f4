"""The site: `sphinx-build docs site`, offline, from these pages, the docstrings and the command line's own help."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from hocket import __version__

project = "hocket"
author = "the authors of hocket"
copyright = author
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "from_code"]
exclude_patterns = ["_ext", "_build", "jupyter_execute"]
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = "hocket"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_show_sphinx = False
html_show_search_summary = False  # a page from disk may not fetch others
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
myst_links_external_new_tab = False

nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False  # those of other libraries are theirs
