"""How good the codes of a hash encoder are: how many of the nearest training pictures are of the query's class."""

from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from hardmax.cli.by_model import refuse
from hardmax.cli.evaluate import Evaluation, Options
from hardmax.errors import ArgumentError
from hardmax.metrics.retrieval import precision_of_codes, precision_of_vectors
from hardmax.training.hashing.evaluate import codes_of, packed, use_of_bits
from hardmax.training.held_out import held_out

if TYPE_CHECKING:
    from hardmax.models import HashEncoder
    from hardmax.training.restore import Restored

_KS = (1, 10, 100)


def evaluate(options: Options, restored: "Restored[HashEncoder]", bar: Progress) -> Evaluation:
    """Return the precision of codes and of the pixels themselves, and how the bits are used.

    Raises:
        ArgumentError: something is asked for that only VAEs have; the training pictures are to find themselves.
    """
    refuse(options, "refine", "perturb_and_map", "samples")
    if options.split == "train":
        raise ArgumentError("training pictures are what is searched; give --split validation or --split test")
    images, config = restored.images(options.data_dir), restored.config
    queries = held_out(config, images, options.split)[: options.images].to(options.device)
    train = held_out(config, images, "train").to(options.device)
    with bar:
        bar.add_task(f"{len(queries):,} pictures among {len(train):,}", total=None)
        base, sought = codes_of(restored.model, train), codes_of(restored.model, queries)
        found: dict[str, Any] = {"searched": len(train), "bits": restored.model.space.n, **use_of_bits(base)}
        tables: list[Any] = []
        if images.labels is not None:
            wanted, labels = images.labels[options.split][: len(queries)], images.labels["train"]
            ks = [k for k in _KS if k <= len(train)]
            codes = precision_of_codes(packed(sought), wanted.numpy(), packed(base), labels.numpy(), ks)
            pixels = precision_of_vectors(queries.flatten(1).cpu(), wanted, train.flatten(1).cpu(), labels, ks)
            found |= {"precision": dict(zip(map(str, ks), codes, strict=True))}
            found |= {"precision_of_pixels": dict(zip(map(str, ks), pixels, strict=True))}
            headings = ("of the nearest, of the query's class", *(f"of {k}" for k in ks))
            rows = [
                (f"codes of {restored.model.space.n} bits", *(f"{value:.2%}" for value in codes)),
                (f"{queries[0].numel():,} pixels", *(f"{value:.2%}" for value in pixels)),
            ]
            tables.append((headings, rows))
    bits = [
        ("balance, 1 where each is one for half of the pictures", f"{found['balance']:.3f}"),
        ("correlation of two, 0 where each says something else", f"{found['correlation']:.3f}"),
    ]
    return Evaluation(len(queries), found, [*tables, (("bits", ""), bits)])
