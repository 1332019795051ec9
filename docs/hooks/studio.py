"""Hook of mkdocs: the figures of the studio's gradient lab, which the page tutorials/gradient-lab.md uses too.

They stay in the package, where the studio serves them; the documentation gets a copy when it is built.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

WIDGETS = Path(__file__).parents[2] / "src" / "hardmax" / "studio" / "static" / "gradient_widgets.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the script to the files of the site."""
    files.append(File.generated(config, f"javascripts/{WIDGETS.name}", abs_src_path=str(WIDGETS)))
    return files
