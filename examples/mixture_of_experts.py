"""Does it matter by which estimator a router learns? Three small mixtures of experts, trained with each.

    python examples/mixture_of_experts.py                                  a few steps of each, on data that ships
    python examples/mixture_of_experts.py routers.jsonl                    all runs that are missing, and the tables
    python examples/mixture_of_experts.py routers.jsonl images softmax 0   one run

The cost of a step is counted in passes of a token through an expert: one forward, two backward. An estimator with a
gradient of the choice evaluates all experts forward, so that it makes fewer steps with the same number of passes.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev, variance
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import hardmax as hm
from hardmax.data import load_images, load_sequences
from hardmax.random import make_generator

EXPERTS, SEEDS = 8, (0, 1, 2)


@dataclass(frozen=True)
class Method:
    """How the router learns."""

    estimator: Any = "softmax"
    noise: float = 0.0
    unchosen: bool = True  # whether the gradient of the choice evaluates the experts that are not chosen
    samples: int = 1
    is_trained: bool = True
    has_choice: bool = True  # otherwise there are only k experts

    def count_passes(self, k: int) -> int:
        """Return the passes through experts of one token in one step."""
        is_dense = self.unchosen and self.estimator not in ("softmax", "score-function")
        return self.samples * 3 * k + (EXPERTS - k) * is_dense


METHODS = {
    "no choice": Method(has_choice=False),
    "frozen": Method(is_trained=False),
    "softmax": Method(),
    "softmax, noise": Method(noise=1.0),
    "dense": Method("dense"),
    "straight-through": Method(hm.StraightThrough()),
    "ReinMax": Method(hm.ReinMax()),
    "ReinMax, chosen": Method(hm.ReinMax(), unchosen=False),
    "Gumbel-softmax": Method(hm.GumbelSoftmax(hard=True)),
    "I-MLE": Method(hm.ImplicitMLE()),
    "leave-one-out": Method("score-function", samples=2),
}
POOLED = [name for name, method in METHODS.items() if method.has_choice]


class Mixture(nn.Module):
    """Experts with one hidden layer, and their router."""

    def __init__(self, method: Method, dim: int, k: int, tokens: int, generator: torch.Generator) -> None:
        super().__init__()
        self.unchosen, experts = method.unchosen, EXPERTS if method.has_choice else k
        # The loss is a mean over tokens; this step moves the scores of a token by the slope of its own loss.
        estimator = hm.ImplicitMLE(step=tokens) if method.estimator == hm.ImplicitMLE() else method.estimator
        options = {
            "estimator": estimator,
            "noise": method.noise,
            "balance": "loss",
            "loss_weight": 0.05,
            "normalise": k > 1,
        }
        self.router = hm.nn.TopKRouter(dim, experts, k, **options, generator=generator)
        self.router.requires_grad_(method.is_trained)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim // 2), nn.ReLU(), nn.Linear(dim // 2, dim)) for _ in range(experts)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, hm.nn.Routing]:
        routing = self.router(x)
        return hm.nn.mix_experts(self.experts, x, routing, unchosen=self.unchosen), routing


class ImageClassifier(nn.Module):
    """The class of an image; the mixture replaces the hidden layer, so that all information passes through it."""

    k, batch, tokens, learning_rate, steps = 1, 200, 200, 3e-3, 1500

    def __init__(self, method: Method, seed: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.LayerNorm(32))
        self.mixture = Mixture(method, 32, self.k, self.tokens, make_generator(seed, "router"))
        self.last = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, hm.nn.Routing]:
        y, routing = self.mixture(self.first(x))
        return self.last(y), routing

    @staticmethod
    def load(quick: bool) -> dict[str, tuple[Tensor, Tensor]]:
        images = load_images("sample" if quick else "fashion-mnist")
        assert images.labels is not None
        return {part: (getattr(images, part) / 255, images.labels[part]) for part in ("train", "test")}


class DomainClassifier(ImageClassifier):
    """The same for images of eight domains, each with its own names of the classes: here the choice matters.

    The domain is marked by three bright pixels in the first row.
    """

    @staticmethod
    def load(quick: bool) -> dict[str, tuple[Tensor, Tensor]]:
        names = torch.rand(EXPERTS, 10, generator=make_generator(0, "names")).argsort(-1)
        parts = {}
        for part, (x, y) in ImageClassifier.load(quick).items():
            domain = torch.randint(EXPERTS, y.shape, generator=make_generator(0, "domains", part))
            x[:, 0, 0, : 3 * EXPERTS] = torch.eye(EXPERTS)[domain].repeat_interleave(3, -1)
            parts[part] = (x, names[domain, y])
        return parts


class LanguageModel(nn.Module):
    """The next character; the mixture follows the recurrent layer: a choice affects the loss of its own token only."""

    k, batch, tokens, learning_rate, steps = 2, 16, 16 * 48, 3e-3, 600

    def __init__(self, method: Method, seed: int) -> None:
        super().__init__()
        self.first = nn.Embedding(70, 32)
        self.recurrent = nn.GRU(32, 64, batch_first=True)
        self.mixture = Mixture(method, 64, self.k, self.tokens, make_generator(seed, "router"))
        self.last = nn.Linear(64, 70)

    def forward(self, x: Tensor) -> tuple[Tensor, hm.nn.Routing]:
        state, _ = self.recurrent(self.first(x))
        y, routing = self.mixture(state)
        return self.last(state + y), routing

    @staticmethod
    def load(quick: bool) -> dict[str, tuple[Tensor, Tensor]]:
        text = load_sequences("constitution", length=49)
        parts = {"train": text.train, "test": text.test[::48]}  # the test pieces do not overlap
        return {part: (pieces[:, :-1], pieces[:, 1:]) for part, pieces in parts.items()}


TASKS = {"images": ImageClassifier, "domains": DomainClassifier, "text": LanguageModel}


def compute_loss(model: nn.Module, method: Method, x: Tensor, y: Tensor) -> Tensor:
    """Return the loss of a batch, whose gradient is that of the method."""
    samples = method.samples
    logits, routing = model(x.repeat(samples, *(1,) * (x.dim() - 1)))
    values = cross_entropy(logits.flatten(0, -2), y.flatten().repeat(samples), reduction="none").view(samples, -1)
    if samples > 1:  # the baseline of each sample is the mean loss of the other samples of the same token
        advantage = (values - values.mean(0)).detach() * samples / (samples - 1)
        values = values + advantage * routing.log_prob.view(samples, -1)
    return values.mean() + routing.loss


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """Return loss, accuracy and load on the test data, with the most likely experts."""
    model.eval()
    logits, routing = model(x)
    model.train()
    logits, y = logits.flatten(0, -2), y.flatten()
    return {
        "loss": cross_entropy(logits, y).item(),
        "accuracy": (logits.argmax(-1) == y).float().mean().item(),
        "entropy": routing.load.entropy.item(),
        "drop_rate": routing.load.drop_rate.item(),
    }


def train(task: str, name: str, seed: int, data: dict[str, tuple[Tensor, Tensor]], steps: int) -> Iterator[dict]:
    """Yield a row after as many passes through experts as top-k softmax makes, and a row after as many steps."""
    method, kind = METHODS[name], TASKS[task]
    torch.manual_seed(seed)
    model = kind(method, seed)
    optimizer = torch.optim.Adam(model.parameters(), kind.learning_rate)
    generator = make_generator(seed, "batches")
    passes = method.count_passes(kind.k)
    stops = {"passes": max(1, round(steps * METHODS["softmax"].count_passes(kind.k) / passes)), "steps": steps}
    seconds, (x, y) = 0.0, data["train"]
    for step in range(1, steps + 1):
        start = process_time()
        index = torch.randint(len(x), (kind.batch,), generator=generator)
        optimizer.zero_grad()
        compute_loss(model, method, x[index], y[index]).backward()
        optimizer.step()
        seconds += process_time() - start
        for equal in (equal for equal, stop in stops.items() if stop == step):
            yield {
                "command": f"python examples/mixture_of_experts.py routers.jsonl {task} {name!r} {seed}",
                **{"task": task, "method": name, "seed": seed, "equal": equal, "steps": step},
                **{"passes": step * passes, "seconds": seconds},
                **evaluate(model, *data["test"]),
            }


def run_missing(path: Path | None, tasks: list[str], names: list[str], seeds: list[int]) -> list[dict]:
    """Make the runs without rows in the file, and return all rows; without a file, a few steps of each run."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
    for task in tasks:
        data = TASKS[task].load(quick=path is None)
        steps = TASKS[task].steps if path else 3
        for seed in seeds:
            for name in names:
                if any((row["task"], row["method"], row["seed"]) == (task, name, seed) for row in rows):
                    continue
                new = list(train(task, name, seed, data, steps))
                rows += new
                if path:
                    with path.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in new)
    return rows


def format_mean(values: list[float], digits: int) -> str:
    """Return the mean and its standard error."""
    error = f" ± {stdev(values) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{error}"


def print_table(task: str, equal: str, rows: list[dict]) -> None:
    """Print a table in Markdown.

    Differences to softmax are between runs of the same seed. Of three seeds, a standard error is itself mostly chance,
    so t divides the mean difference by the root mean square of the standard errors of all routers with a choice.
    """
    runs: dict[str, list[dict]] = {name: [] for name in METHODS}
    for row in rows:
        if (row["task"], row["equal"]) == (task, equal):
            runs[row["method"]].append(row)
    loss_of_softmax = {row["seed"]: row["loss"] for row in runs["softmax"]}
    differences = {
        name: [row["loss"] - loss_of_softmax[row["seed"]] for row in runs[name] if row["seed"] in loss_of_softmax]
        for name in METHODS
        if name != "softmax"
    }
    variances = [variance(each) / len(each) for name, each in differences.items() if name in POOLED and len(each) > 1]
    print(f"\n**{task}, equal {equal}**\n")
    print("| router | steps | passes | test loss | minus softmax | t | accuracy, % | entropy | dropped, % | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in (name for name in METHODS if runs[name]):
        difference = differences.get(name, [])
        columns = [
            *(name, f"{runs[name][0]['steps']:,}", f"{runs[name][0]['passes']:,}"),
            format_mean([row["loss"] for row in runs[name]], 3),
            format_mean(difference, 3) if difference else "",
            f"{mean(difference) / mean(variances) ** 0.5:.1f}" if difference and variances else "",
            format_mean([100 * row["accuracy"] for row in runs[name]], 1),
            f"{mean(row['entropy'] for row in runs[name]):.2f}",
            f"{mean(100 * row['drop_rate'] for row in runs[name]):.0f}",
            f"{mean(row['seconds'] for row in runs[name]):.1f}",
        ]
        print("| " + " | ".join(columns) + " |")


def main(path: str | None = None, task: str | None = None, name: str | None = None, seed: str | None = None) -> None:
    seeds = [int(seed)] if seed else list(SEEDS if path else SEEDS[:1])
    tasks, names = [task] if task else [*TASKS], [name] if name else [*METHODS]
    rows = run_missing(Path(path) if path else None, tasks, names, seeds)
    for each in TASKS:
        for equal in ("passes", "steps"):
            print_table(each, equal, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
