"""Strict parsers of pages, for tests."""

from html.parser import HTMLParser

VOID = {"meta", "br"}


class Html(HTMLParser):
    """A page of HTML: fails where tags are not nested, keeps tables, references and ids."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.references, self.ids, self.text, self.tags = [], [], [], [], "", []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.take(attributes)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.take(attributes)

    def take(self, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            elif name in ("src", "href", "xlink:href", "srcset", "data", "action") or "url(" in (value or ""):
                self.references.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"th", "td"} & set(self.open):
            mark = "*" if "strong" in self.open else "~" if "small" in self.open else ""
            self.tables[-1][-1][-1] += f"{mark}{data}{mark}"


def markdown_tables(text):
    """Return the tables of a page of Markdown, line by line."""
    tables, inside = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        places = line.replace("\\|", "\0").strip("|").split("|")
        if not inside:
            tables.append([])
        inside = True
        tables[-1].append([place.strip().replace("\0", "|") for place in places])
    return tables
