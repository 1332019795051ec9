"""The commands `hardmax evaluate` and `hardmax sample`: measure a trained model, and draw samples from it."""

import json

from hardmax.applications.argument_parser import parse
from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, check_model
from hardmax.applications.registry import names_with
from hardmax.console import make_console


def evaluate(arguments: list[str]) -> int:
    """Evaluate a model and print the results."""
    options = parse(EvaluateOptions, "evaluate", arguments)
    application = check_model("evaluate", options.run, names_with("evaluate"))
    from rich.table import Table

    from hardmax.applications.runs import load_run

    loaded = load_run(options.run, options.checkpoint, device=options.device, data=options.data)
    result: Evaluation = application.load(application.evaluate)(options, loaded)
    if options.json:
        about = {"run": options.run, "checkpoint": loaded.checkpoint, "split": options.split, "images": result.images}
        print(json.dumps({**about, **result.numbers}))
        return 0
    title = f"{options.run}, {loaded.checkpoint}: {result.images:,} {options.split} {application.metrics.examples}"
    for headings, rows in result.tables:
        table = Table(title=title, min_width=60)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left")
        for row in rows:
            table.add_row(*row)
        make_console().print(table)
        title = None
    return 0


def sample(arguments: list[str]) -> int:
    """Draw samples from a model, and print or write them."""
    options = parse(SampleOptions, "sample", arguments)
    application = check_model("sample", options.run, names_with("sample"))
    application.load(application.sample)(options)
    return 0
