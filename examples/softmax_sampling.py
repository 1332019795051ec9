"""Two softmax distributions, sampled with one arg max each: labels of a classifier, and words next to a word.

Scores are inner products, and the arg max of scores plus Gumbel noise is a sample:

    classifier     scores_i = x . theta_i    p(label | image), learned from the images that come with hardmax
    word vectors   scores_i = u_i . v_c      p(word next to c), learned from the reference manual inside Python

    python examples/softmax_sampling.py [FIGURE]
"""

import re
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import hardmax as hm
from hardmax.data import load_images
from hardmax.drawing.style import save_figure, use_plot_style

CLASSES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
SKIPPED, WORDS, VECTOR, WINDOW = 40, 400, 20, 3  # the most common words, such as "the", carry little information
CENTRE = "dictionary"


def train_classifier(x: Tensor, labels: Tensor) -> nn.Linear:
    """Return theta, fitted to images `[N, D]` by the cross-entropy of softmax(x . theta)."""
    model = nn.Linear(x.shape[1], len(CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    return model


def count_pairs() -> tuple[list[str], Tensor]:
    """Return common words of the manual, and the counts of pairs at most three words apart, `[V, V]`."""
    text = re.findall(r"[a-z]+", " ".join(topics[name] for name in sorted(topics)).lower())
    words = [word for word, _ in Counter(text).most_common(SKIPPED + WORDS)][SKIPPED:]
    number = {word: i for i, word in enumerate(words)}
    known = torch.tensor([number[word] for word in text if word in number])
    counts = torch.zeros(WORDS, WORDS)
    for apart in range(1, WINDOW + 1):
        pairs = torch.stack([known[:-apart], known[apart:]])
        counts.index_put_(tuple(pairs), torch.ones(()), accumulate=True)
    return words, counts + counts.T


def train_word_vectors(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return u and v, each `[V, D]`, fitted to p(i next to c) = softmax_i(u_i . v_c) by maximum likelihood."""
    u, v = (nn.Parameter(0.1 * torch.randn(WORDS, VECTOR)) for _ in range(2))
    optimizer = torch.optim.Adam([u, v], lr=0.05)
    for _ in range(200):
        loss = -(counts * (v @ u.T).log_softmax(-1)).sum() / counts.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return u.detach(), v.detach()


def count_frequencies(scores: Tensor, draws: int = 100_000) -> Tensor:
    """Return how often each category is the arg max of scores plus Gumbel noise: `[K] -> [K]`."""
    space = hm.Categorical(len(scores))
    noise = space.noise((draws,), torch.Generator().manual_seed(0))
    return space.argmax(space.perturb(scores, noise)).mean(0)


def plot_categories(title: str, names: list[str], scores: Tensor, axes) -> None:
    """Print and draw the likeliest categories: softmax as bars, frequencies as dots."""
    share, sampled = scores.softmax(0), count_frequencies(scores)
    top = share.topk(8).indices.tolist()
    print(f"\n{title}\n{'':<12}{'softmax':>8}  {'frequency of the arg max':>24}")
    for i in top:
        print(f"{names[i]:<12}{share[i]:8.4f}  {sampled[i]:24.4f}")
    axes.barh(range(8), share[top].tolist(), color="#a8c5e2", label="softmax")
    axes.plot(sampled[top].tolist(), range(8), "o", color="#d1495b", markersize=4, label="arg max of 100,000 draws")
    axes.set_yticks(range(8), [names[i] for i in top])
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10)


def main(path: str = "softmax_sampling.svg") -> None:
    torch.manual_seed(0)
    images = load_images("sample")
    train, test = (part.flatten(1).float() / 255 for part in (images.train, images.test))
    model = train_classifier(train, images.labels["train"])
    with torch.no_grad():
        scores = model(test)
    right = (scores.argmax(-1) == images.labels["test"]).double().mean()
    drawn = hm.Categorical(10).sample(scores, 1, generator=torch.Generator().manual_seed(1))[0]
    right_drawn = (drawn.argmax(-1) == images.labels["test"]).double().mean()
    print(f"classifier: {right:.1%} of the test images right by the arg max, {right_drawn:.1%} by a drawn label")
    unsure = int(hm.Categorical(10).entropy(scores).argmax())

    words, counts = count_pairs()
    u, v = train_word_vectors(counts)
    entropy = -(counts / counts.sum() * (counts / counts.sum(-1, keepdim=True)).log().clamp_min(-99)).sum()
    loss = -(counts / counts.sum() * (v @ u.T).log_softmax(-1)).sum()
    print(f"word vectors: {loss:.2f} nats for a word next to a word; {entropy:.2f} with a table of all pairs")

    with use_plot_style("softmax-sampling"):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right_axes = figure.subplots(1, 2)
        truth = CLASSES[int(images.labels["test"][unsure])]
        plot_categories(f"label of the least clear test image ({truth})", CLASSES, scores[unsure], left)
        plot_categories(f'word next to "{CENTRE}"', words, u @ v[words.index(CENTRE)], right_axes)
        right_axes.legend(loc="lower right")
        save_figure(figure, {Path(path).suffix[1:]: Path(path)})
    print(f"\nsee {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
