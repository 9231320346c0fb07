"""How Sphinx makes the site (scripts/site, `make site`): Markdown by MyST, Sphinx's own theme. Every link between pages and every
heading that a link names is checked; nothing is fetched, neither now nor by a reader's browser."""

project = "Nearfar"
extensions = ["myst_parser"]
html_title = "Nearfar"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Where code and data should live on a machine, found out by measuring",
    "fixed_sidebar": False,
    "page_width": "69rem",
    "sidebar_width": "15rem",
    "font_family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "head_font_family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "font_size": "16px",
    "show_powered_by": False,
}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
# The same commit makes the same site, whenever that is.
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
# Excerpts would be fetched, which browsers refuse to pages that were opened from a disk.
html_show_search_summary = False
pygments_style = "default"
# Headings that links may name, as on GitHub.
myst_heading_anchors = 4
myst_update_mathjax = False
# Blocks without a language are what a screen shows.
highlight_language = "none"
# A wrong link is a broken build (-W), and none of them may be left out here.
nitpicky = True
# A block that its language's colouring does not understand is shown without colours.
suppress_warnings = ["misc.highlighting_failure"]
