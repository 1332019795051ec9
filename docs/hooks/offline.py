"""Hook of mkdocs: pages load nothing from other sites, also when they are opened from disk.

The offline plugin of the theme adds a script from another site, with which the search works on pages from disk. It is
replaced by docs/javascripts/offline-search.js.
"""

import re
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.utils import get_relative_url

SCRIPT = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')
OURS = "javascripts/offline-search.js"
ELSEWHERE = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]*"[^>]*>')


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Change a finished page."""
    return keep_local(output, page.url)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Do the same for pages without a Markdown file, such as 404.html."""
    return keep_local(output_content, template_name) if template_name.endswith(".html") else output_content


def keep_local(page: str, url: str) -> str:
    """Return a page whose search uses our script.

    Raises:
        PluginError: a script, style sheet, image or frame has an address on another site.
    """
    ours = get_relative_url(OURS, url)
    page = SCRIPT.sub(lambda _: f'<script src="{ours}"></script>', page)
    loaded = [tag for tag in ELSEWHERE.findall(page) if 'rel="canonical"' not in tag]
    if loaded:
        raise PluginError(f"{url}: {loaded[0]} would be loaded from another site; keep a copy in docs/")
    return page
