"""Configuration of Sphinx for scripts/site (`make site`): Markdown by MyST with one of Sphinx's built-in themes.

Sphinx checks every link between pages and every linked heading. Neither the build nor a reader's browser fetches anything.
"""

project = "Nearfar"
extensions = ["myst_parser"]
html_title = "Nearfar"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Measures where threads, memory and interrupts should be placed",
    "fixed_sidebar": False,
    "page_width": "69rem",
    "sidebar_width": "15rem",
    "font_family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "head_font_family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "font_size": "16px",
    "show_powered_by": False,
}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
# Reproducible output: no copies of the sources, no date.
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
# Search summaries require fetch(), which browsers block for pages opened from a disk.
html_show_search_summary = False
pygments_style = "default"
# Anchors of headings up to this level, named as on GitHub.
myst_heading_anchors = 4
myst_update_mathjax = False
# Code blocks without a language are terminal output.
highlight_language = "none"
# scripts/site builds with -W: a broken link fails the build.
nitpicky = True
# A block that does not match its language is shown without highlighting.
suppress_warnings = ["misc.highlighting_failure"]
