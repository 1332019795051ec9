"""Rows for one training step of a categorical VAE, 784-300-k / k-300-784, with direct optimization, batch size 100."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, gumbel_softmax, softplus

import hardmax as hm
from benchmarks.speed.comparison import Call, Comparison

PIXELS, HIDDEN, BATCH = 784, 300, 100
GOALS_OVER_GUMBEL_SOFTMAX = {10: 0.70, 20: 0.74, 50: 0.90, 200: 1.2}
GROUP = "Direct, one training step"


class Training:
    """Two networks, their optimizer and images; each of the two has its own."""

    def __init__(self, k: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.rand(10_000, PIXELS, generator=generator).round()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, k))
        self.decoder = nn.Sequential(nn.Linear(k, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS))
        parameters = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)

    def draw_batch(self) -> Tensor:
        return self.images[torch.randint(0, len(self.images), (BATCH,))]

    def update(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def make_our_step(k: int) -> Call:
    training, space, estimator = Training(k), hm.Categorical(k), hm.Direct()

    def step() -> None:
        x = training.draw_batch()
        out = hm.elbo(hm.BernoulliLikelihood(training.decoder, x), training.encoder(x), space, estimator)
        training.update(-out.value.mean())

    return step


def draw_gumbel(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64).log_().neg_().log_().neg_().float()


def make_handwritten_step(k: int) -> Call:
    """Return the same step with autograd, as short as it can be written; the decoder is evaluated at all k codes."""
    training, codes = Training(k), torch.eye(k)

    def step() -> None:
        x = training.draw_batch()
        scores = training.encoder(x)
        logits = training.decoder(codes)
        table = x @ logits.T - softplus(logits).sum(-1)
        with torch.no_grad():
            noise = draw_gumbel(BATCH, k)
            index = (scores + noise).argmax(-1, keepdim=True)
            moved = (table + noise).argmax(-1, keepdim=True)  # the integrand holds - scores
            gradient = torch.zeros(BATCH, k).scatter_(-1, moved, 1.0)
            gradient.scatter_add_(-1, index, torch.full((BATCH, 1), -1.0))
            log_q = scores.log_softmax(-1)
            kl = (log_q.exp() * (log_q + math.log(k))).sum(-1)
        surrogate = (gradient * scores).sum()
        training.update(-(table.gather(-1, index).sum() - kl.sum() + surrogate - surrogate.detach()) / BATCH)

    return step


def make_distinct_step(k: int) -> Call:
    """Return the same step for many codes: all are evaluated, and backward passes through the distinct ones drawn."""
    training = Training(k)
    first, _, last = training.decoder

    def step() -> None:
        x = training.draw_batch()
        scores = training.encoder(x)
        with torch.no_grad():
            logits = last((first.weight.T + first.bias).relu_())  # a code times the weights is a column of them
            table = x @ logits.T - softplus(logits).sum(-1)
            noise = draw_gumbel(BATCH, k)
            index = (scores + noise).argmax(-1)
            moved = (table + noise).argmax(-1, keepdim=True)
            gradient = torch.zeros(BATCH, k).scatter_(-1, moved, 1.0)
            gradient.scatter_add_(-1, index[:, None], torch.full((BATCH, 1), -1.0))
            log_q = scores.log_softmax(-1)
            kl = (log_q.exp() * (log_q + math.log(k))).sum(-1)
            distinct, inverse = index.unique(return_inverse=True)
        logits = last((first.weight[:, distinct].T + first.bias).relu())
        values = (x * logits[inverse]).sum() - softplus(logits).sum(-1)[inverse].sum()
        surrogate = (gradient * scores).sum()
        training.update(-(values - kl.sum() + surrogate - surrogate.detach()) / BATCH)

    return step


def make_gumbel_softmax_step(k: int) -> Call:
    training = Training(k)

    def step() -> None:
        x = training.draw_batch()
        scores = training.encoder(x)
        log_q = scores.log_softmax(-1)
        kl = (log_q.exp() * (log_q + math.log(k))).sum()
        logits = training.decoder(gumbel_softmax(scores, 1.0))
        loss = binary_cross_entropy_with_logits(logits, x, reduction="sum") + kl
        training.update(loss / BATCH)

    return step


def list_rows() -> list[Comparison]:
    """Return the rows: over hand-written code, over a step with Gumbel-softmax, and at many codes."""
    return [
        *(
            Comparison(GROUP, f"k = {k}", lambda k=k: (make_our_step(k), make_handwritten_step(k)), 1.1, rounds=200)
            for k in GOALS_OVER_GUMBEL_SOFTMAX
        ),
        *(
            Comparison(
                GROUP,
                f"k = {k}, over a Gumbel-softmax step",
                lambda k=k: (make_our_step(k), make_gumbel_softmax_step(k)),
                goal,
                rounds=200,
            )
            for k, goal in GOALS_OVER_GUMBEL_SOFTMAX.items()
        ),
        *(
            Comparison(
                GROUP,
                f"k = {k:,}, over a step that decodes distinct codes",
                lambda k=k: (make_our_step(k), make_distinct_step(k)),
                2.0,
                rounds=10,
            )
            for k in (1_000, 3_000, 10_000)
        ),
    ]
