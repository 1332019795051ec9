"""`hardmax sample`."""

from hardmax.applications.command_line import SampleOptions, check_model, parse
from hardmax.applications.registry import APPLICATIONS


def run(arguments: list[str]) -> int:
    """Sample, and show or write the samples."""
    options = parse(SampleOptions, "sample", arguments)
    application = check_model("sample", options.run, [one.name for one in APPLICATIONS if one.sample])
    application.load(application.sample)(options)
    return 0
