"""How Sphinx makes the site (scripts/site, `make site`): Markdown by MyST, the theme furo, both as Debian has them. Every link
between pages and every heading that a link names is checked; nothing is fetched, neither now nor by a reader's browser."""

project = "Nearfar"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Nearfar"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Pages say what they are about, not when they were made: the same commit makes the same site.
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
# Headings that links may name, as on GitHub.
myst_heading_anchors = 4
myst_update_mathjax = False
# Blocks without a language are what a screen shows.
highlight_language = "none"
# A wrong link is a broken build (-W), and none of them may be left out here.
nitpicky = True
# A block that its language's colouring does not understand is shown without colours.
suppress_warnings = ["misc.highlighting_failure"]
