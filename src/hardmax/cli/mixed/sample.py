"""Samples of a mixed VAE: rows of one continuous latent, columns of classes or of settings of attributes."""

from hardmax.cli.sample import Options, write_picture
from hardmax.errors import ArgumentError
from hardmax.models import MixedVAE
from hardmax.random import stream
from hardmax.report.mixed.columns import columns_of
from hardmax.report.mixed.meaning import meaning_of, split_words
from hardmax.report.mixed.samples import draw_samples
from hardmax.report.sheet import sheet
from hardmax.training.restore import restore

_ROWS = 8


def sample(options: Options) -> None:
    """Write a sheet of pictures.

    Raises:
        ArgumentError: the run has no attributes, or not those that are named, or a value is no bit.
    """
    restored = restore(options.run, options.checkpoint, kind=MixedVAE)
    meaning = meaning_of(restored.config, restored.model.space, restored.said)
    if not meaning.attributes and (options.attributes or options.vary):
        raise ArgumentError(
            f"--attributes and --vary are for runs with attributes, and {options.run} has none: its columns are the "
            f"{meaning.values} values of {meaning.names[0]!r}; leave them out, or train with --attributes"
        )
    fixed = meaning.read(options.attributes) if options.attributes is not None else None
    vary = None if options.vary is None else [meaning.find(name) for name in split_words(options.vary)]
    columns = columns_of(meaning, fixed, vary)
    count = options.count or _ROWS
    found = draw_samples(restored.model, meaning, columns, count, stream(options.seed, "sample"))
    names = [meaning.names[variable] for variable in columns.variables]
    drawn = sheet(found.pictures, names=names, heads=columns.heads, rows=found.rows)
    if columns.note:
        print(columns.note)
    said = f"{count} rows of {len(columns.settings)} pictures, each row with one continuous latent,"
    write_picture(options, drawn, said)
