"""The registry of applications: one record for each, strings only, no torch.

A record holds all that the rest of the program needs to know about an application: its names, where its configuration,
task, model, report and commands are defined, its metrics, and how a finished run is summarised. To add an application,
add one folder and one record here; nothing else lists applications.
"""

from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from hardmax.errors import ArgumentError
from hardmax.training.config import Metrics

if TYPE_CHECKING:
    from hardmax.applications.exploration import (
        AbstractExplorer,
    )
    from hardmax.models import AbstractModel
    from hardmax.report.sections import AbstractReport
    from hardmax.training.config import TrainConfig
    from hardmax.training.task import AbstractTask


@dataclass(frozen=True)
class Command:
    """A command that a single application has.

    Attributes:
        name: as typed, such as "edit" or "segment run".
        help: one line.
        options: the dataclass of its options, as "module:name" within the application's package.
        function: the function that is called with them; it returns the exit code, or None for 0.
        run: the option that names a run of this application; empty if there is none.
    """

    name: str
    help: str
    options: str
    function: str
    run: str = ""


@dataclass(frozen=True)
class CommandGroup:
    """The help of commands that share their first word: one line, a longer text, and examples."""

    help: str
    about: str
    examples: str


@dataclass(frozen=True)
class SummaryNumber:
    """A number in the one-line summary of a finished run: its label, its key in a result row, and its format."""

    label: str
    key: str
    format: str = ".2f"


_NOTHING = Metrics(())
BOUND, NLL = SummaryNumber("-ELBO", "negative_elbo"), SummaryNumber("-log p", "nll")


@dataclass(frozen=True, kw_only=True)
class Application:
    """The record of an application; places are given as "module:name" within its package.

    Attributes:
        name: its name in `--model` and in the configuration of a run.
        help: what it is, in one line.
        package: its folder, as a dotted name.
        config: class of its options, a `TrainConfig`; empty if `hardmax train` does not train it.
        task: class that trains it, an `AbstractTask`.
        model: class of its model, an `AbstractModel`.
        kind: name of that model in saved files.
        other_models: places of other models that it saves, by their names in saved files.
        report: class of its report, an `AbstractReport`.
        explorer: class that shows its model in the studio, an `AbstractExplorer`; empty if there is none.
        evaluate: function of `hardmax evaluate`.
        sample: function of `hardmax sample`.
        commands: commands that only this application has.
        metrics: the metrics measured after every epoch, and the criterion among them.
        row_metrics: columns of `metrics.jsonl` that a result row keeps in addition to the bound.
        summary: the numbers in the summary of a finished run.
        comparable: options that must agree for the numbers of two runs to be comparable.
    """

    name: str
    help: str
    package: str
    config: str = ""
    task: str = ""
    model: str = ""
    kind: str = ""
    other_models: dict[str, str] = field(default_factory=dict)
    report: str = ""
    explorer: str = ""
    evaluate: str = ""
    sample: str = ""
    commands: tuple[Command, ...] = ()
    metrics: Metrics = _NOTHING
    row_metrics: tuple[str, ...] = ()
    summary: tuple[SummaryNumber, ...] = ()
    comparable: tuple[str, ...] = ()

    def load(self, place: str) -> Any:
        """Import the object at a place "module:name" of this application."""
        module, name = place.split(":")
        return getattr(import_module(f"{self.package}.{module}"), name)

    def load_config(self) -> "type[TrainConfig]":
        """Import the class of its options."""
        return self.load(self.config)

    def load_task(self) -> "type[AbstractTask[Any, Any]]":
        """Import the class that trains it."""
        return self.load(self.task)

    def load_model(self) -> "type[AbstractModel]":
        """Import the class of its model."""
        return self.load(self.model)

    def load_report(self) -> "AbstractReport[Any]":
        """Import the class of its report, and return an instance."""
        return self.load(self.report)()

    def load_explorer(self) -> "type[AbstractExplorer[Any]]":
        """Import the class that shows its model in the studio."""
        return self.load(self.explorer)


APPLICATIONS = (
    Application(
        name="discrete",
        help="a variational auto-encoder with discrete latents",
        package="hardmax.applications.discrete_vae",
        config="config:DiscreteConfig",
        task="task:DiscreteTask",
        model="model:DiscreteVAE",
        kind="discrete-vae",
        report="report:DiscreteReport",
        explorer="explorer:DiscreteExplorer",
        evaluate="commands:evaluate",
        sample="commands:sample",
        commands=(
            Command(
                "diagnose",
                "measure gradient estimators on a trained model, and recommend one",
                "diagnose:DiagnoseOptions",
                "diagnose:diagnose",
                run="run",
            ),
        ),
        metrics=Metrics(("elbo", "nll", "kl", "reconstruction", "active", "evaluations")),
        row_metrics=("nll", "kl", "active"),
        summary=(BOUND, NLL),
        comparable=("binarize", "likelihood"),
    ),
    Application(
        name="mixed",
        help="a variational auto-encoder with a discrete and a continuous latent, trained with few labels",
        package="hardmax.applications.mixed_vae",
        config="config:MixedConfig",
        task="task:MixedTask",
        model="model:MixedVAE",
        kind="mixed-vae",
        report="report:MixedReport",
        explorer="explorer:MixedExplorer",
        evaluate="commands:evaluate",
        sample="commands:sample",
        commands=(
            Command(
                "edit",
                "change attributes of photos, such as smiling",
                "config:EditOptions",
                "commands:edit",
                run="run",
            ),
        ),
        metrics=Metrics(
            (
                *("elbo", "nll", "kl", "reconstruction", "accuracy", "accuracy_sampled"),
                *("evaluations", "label_loss", "consistency_loss", "sure", "recognition_loss"),
            )
        ),
        row_metrics=("nll", "kl", "accuracy", "accuracy_sampled"),
        summary=(BOUND, NLL, SummaryNumber("accuracy", "accuracy", ".1%")),
        comparable=("binarize", "likelihood", "attributes"),
    ),
    Application(
        name="dvae",
        help="a variational auto-encoder that turns images into grids of tokens, and back",
        package="hardmax.applications.tokens",
        config="config:DvaeConfig",
        task="task:DvaeTask",
        model="model:TokenVAE",
        kind="token-vae",
        report="report:DvaeReport",
        explorer="explorer:DvaeExplorer",
        evaluate="commands:evaluate_dvae",
        sample="commands:sample_dvae",
        commands=(
            Command(
                "tokenize",
                "turn images into tokens of a trained dVAE",
                "config:TokenizeOptions",
                "commands:tokenize",
                run="run",
            ),
            Command(
                "detokenize",
                "draw images from tokens of a trained dVAE",
                "config:DetokenizeOptions",
                "commands:detokenize",
                run="run",
            ),
        ),
        metrics=Metrics(
            ("elbo", "nll", "kl", "reconstruction", "mse", "perplexity", "alive", "psnr", "ssim", "evaluations")
        ),
        row_metrics=("nll", "kl", "mse", "perplexity", "alive", "psnr", "ssim"),
        summary=(BOUND, NLL),
        comparable=("binarize", "likelihood"),
    ),
    Application(
        name="token-prior",
        help="a prior over the tokens of a dVAE, which generates images",
        package="hardmax.applications.tokens",
        config="config:TokenPriorConfig",
        task="prior_task:TokenPriorTask",
        model="prior_model:TokenPrior",
        kind="token-prior",
        report="prior_report:TokenPriorReport",
        evaluate="commands:evaluate_prior",
        sample="commands:sample_prior",
        metrics=Metrics(("elbo", "nll", "kl", "reconstruction", "bits")),
        row_metrics=("nll", "kl"),
        summary=(BOUND, NLL),
        comparable=("binarize",),
    ),
    Application(
        name="sequence-gan",
        help="a generator of sequences and its discriminator",
        package="hardmax.applications.sequences",
        config="config:SequenceGANConfig",
        task="task:SequenceGANTask",
        model="model:SequenceGAN",
        kind="sequence-gan",
        report="report:SequenceGANReport",
        explorer="explorer:SequenceExplorer",
        evaluate="commands:evaluate",
        sample="commands:sample",
        metrics=Metrics(
            (
                *("elbo", "nll", "validity", "coverage", "entropy", "divergence", "distinct"),
                *("reward", "discriminator_loss", "evaluations"),
            ),
            examples="sequences",
        ),
        row_metrics=("nll", "validity", "coverage", "entropy", "divergence", "distinct"),
        summary=(
            BOUND,
            NLL,
            SummaryNumber("validity", "validity", ".1%"),
            SummaryNumber("coverage", "coverage", ".1%"),
        ),
    ),
    Application(
        name="hashing",
        help="an encoder of images to codes of bits, to search for similar images",
        package="hardmax.applications.hashing",
        config="config:HashingConfig",
        task="task:HashingTask",
        model="model:HashEncoder",
        kind="hash-encoder",
        report="report:HashingReport",
        explorer="explorer:HashingExplorer",
        evaluate="commands:evaluate",
        commands=(
            Command(
                "index",
                "encode every image of a collection, to search among them",
                "config:IndexOptions",
                "commands:index_images",
                run="run",
            ),
            Command(
                "search",
                "find the images of an index that are most like an image",
                "config:SearchOptions",
                "commands:search_images",
            ),
        ),
        metrics=Metrics(
            (
                *("objective", "precision", "precision_1000", "mean_average_precision"),
                *("mean_average_precision_1000", "balance", "correlation", "evaluations"),
            ),
            criterion="objective",
        ),
        row_metrics=(
            *("objective", "precision", "precision_1000"),
            *("mean_average_precision", "mean_average_precision_1000"),
        ),
        summary=(
            SummaryNumber("precision@100", "precision", ".1%"),
            SummaryNumber("mAP", "mean_average_precision", ".1%"),
        ),
        comparable=("binarize", "searched"),
    ),
    Application(
        name="decisions",
        help="a network that predicts the scores of a problem, trained for the decisions of its solver",
        package="hardmax.applications.decisions",
        config="config:DecisionsConfig",
        task="task:DecisionsTask",
        model="model:DecisionModel",
        kind="decision-model",
        report="report:DecisionsReport",
        evaluate="commands:evaluate",
        commands=(
            Command(
                "decide",
                "make decisions for features of your own",
                "config:DecideOptions",
                "commands:decide",
                run="run",
            ),
        ),
        metrics=Metrics(
            ("regret", "optimal", "loss", "solves"),
            criterion="regret",
            higher_is_better=False,
            examples="examples",
        ),
        row_metrics=("regret", "optimal"),
        summary=(SummaryNumber("regret", "regret", ".2%"), SummaryNumber("optimal", "optimal", ".1%")),
        comparable=("degree", "noise", "features", "images", "flips", "occlusion"),
    ),
    Application(
        name="completion",
        help="a model that completes images with holes in many ways",
        package="hardmax.applications.completion",
        config="config:CompletionConfig",
        task="task:CompletionTask",
        model="model:CompletionModel",
        kind="completion",
        report="report:CompletionReport",
        explorer="explorer:CompletionExplorer",
        evaluate="commands:evaluate",
        sample="commands:sample",
        commands=(
            Command(
                "complete",
                "complete photos with holes in several ways",
                "config:CompleteOptions",
                "commands:complete",
                run="model",
            ),
        ),
        metrics=Metrics(("elbo", "nll", "kl", "reconstruction", "psnr", "components", "loss", "critic_loss")),
        row_metrics=("nll", "kl"),
        summary=(BOUND, NLL),
        comparable=("binarize", "likelihood", "mask"),
    ),
    Application(
        name="segmentation",
        help="segmentation of brain scans with an anatomical prior learned from label maps only",
        package="hardmax.applications.segmentation",
        other_models={
            "image-encoder": "vae.image_encoder:ImageEncoder",
            "label-vae": "vae.label_vae:LabelVAE",
        },
        commands=(
            Command("segment run", "segment scans", "config:SegmentOptions", "commands:segment_scans"),
            Command(
                "segment prior",
                "learn an anatomical prior from label maps",
                "config:PriorOptions",
                "commands:make_prior",
            ),
            Command(
                "segment train",
                "train a network on unlabelled scans that speeds up the segmentation",
                "config:EncoderOptions",
                "commands:make_encoder",
            ),
        ),
    ),
)

# Saved models that are not the main model of any application, by their names in saved files.
OTHER_MODELS = {"gaussian-vae": "hardmax.models.gaussian_vae:GaussianVAE"}

# The help of command groups, by the first word of their commands.
GROUPS = {
    "segment": CommandGroup(
        "segment brain scans with an anatomical prior learned from label maps only",
        "Segment brain scans of any contrast. The anatomy is learned from label maps only, without labelled scans.\n"
        "For research; not for clinical use.",
        """examples:
  hardmax segment run scan.nii.gz --out result
  hardmax segment run scans/ --out result --compare manual/
  hardmax segment prior maps/ --out prior""",
    )
}


def find_application(model: str) -> Application:
    """Return the application with a name, as given to `hardmax train --model`.

    Raises:
        ArgumentError: the name is unknown.
    """
    trained = {application.name: application for application in list_trained()}
    if model not in trained:
        near = get_close_matches(model, trained, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(trained)}"
        raise ArgumentError(f"there is no model {model!r}; {hint}")
    return trained[model]


def list_trained() -> list[Application]:
    """Return the applications that `hardmax train` trains."""
    return [application for application in APPLICATIONS if application.config]


def names_with(command: Literal["evaluate", "sample"]) -> list[str]:
    """Return the names of the applications that support a shared command."""
    return [application.name for application in APPLICATIONS if getattr(application, command)]


def list_model_places() -> dict[str, str]:
    """Return the place "module:name" of the class of every kind of saved model."""
    places = dict(OTHER_MODELS)
    for application in APPLICATIONS:
        models = {application.kind: application.model} if application.kind else {}
        places |= {
            kind: f"{application.package}.{place}" for kind, place in (models | application.other_models).items()
        }
    return places


def list_commands() -> dict[str, tuple[Application, Command]]:
    """Return the commands that belong to one application, by name, each with its application."""
    return {command.name: (application, command) for application in APPLICATIONS for command in application.commands}
