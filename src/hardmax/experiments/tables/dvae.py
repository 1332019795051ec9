"""The dVAE: images as tokens, with each way to learn through their arg max, at equal steps."""

from hardmax.experiments.tables.declaration import Cell, Experiment, Options, Panel, Picture, Quick
from hardmax.experiments.tables.metrics import ALIVE, BOUND, ERROR, PERPLEXITY

EPOCHS = 5
FACES_EPOCHS = 30  # of 40 steps, where those of Fashion-MNIST have 500

DATA: dict[str, Options] = {
    "Fashion-MNIST": {"data": "fashion-mnist", "codes": 128, "epochs": EPOCHS},
    "faces": {"data": "faces", "codes": 256, "epochs": FACES_EPOCHS, "batch_size": 50},
}
WAYS: dict[str, tuple[str, Options]] = {
    "Gumbel-softmax": ("biased", {"estimator": "gumbel-softmax"}),
    "Gumbel-softmax, hard": ("biased", {"estimator": "gumbel-softmax", "hard": True, "tau_floor": 0.5}),
    "straight-through": ("biased", {"estimator": "straight-through"}),
    "ReinMax": ("biased", {"estimator": "reinmax"}),
    "posterior direct": ("ours", {"estimator": "shortlist-direct", "epsilon": 0.1}),
    "posterior direct, epsilon 1": ("ours", {"estimator": "shortlist-direct"}),
    "vector quantization": ("no draw", {"quantize": "nearest"}),
}

DVAE = Experiment(
    name="dvae",
    title="dVAE: tokens of pictures, by how the encoder learns",
    claim="The lecture notes train a dVAE with Gumbel-softmax. What do other ways through the arg max come to, in the "
    "same steps?",
    setting="Fashion-MNIST: 28 x 28 grey pixels as 7 x 7 tokens of 128 codes, 100 pictures in a step. Faces, the set "
    "`faces`, which its user brings: 64 x 64 RGB as 8 x 8 tokens of 256 codes, 50 in a step. Gaussian pixels with a "
    "learned variance, uniform prior, the KL's weight from 0 to 1 over a fifth of the run; convolutional networks of "
    "32 channels and more, Adam at 2e-3 that falls to zero over the second half. Codes that are hardly used are moved "
    "in the first half. Bounds, in nats of densities, from one draw of the tokens of at most 2,000 test pictures; "
    "error, perplexity and alive codes are those of their best tokens.",
    options={"model": "dvae", "epsilon": 1.0},  # of direct alone
    cells=tuple(
        Cell(data, way, group, 2e-3, {**data_options, **options})
        for data, data_options in DATA.items()
        for way, (group, options) in WAYS.items()
    ),
    seeds=(0, 1, 2),
    metrics=(BOUND, ERROR, PERPLEXITY, ALIVE),
    epochs=(1, EPOCHS, FACES_EPOCHS),
    pictures=(Picture((tuple(Panel("epoch", data) for data in DATA),)),),
    notes=(
        "Gumbel-softmax cools from 1 to 0.25 over three quarters of the run, with hard draws to 0.5. Posterior direct "
        "(epsilon 0.1) looks at four of the tokens of a picture in every step, each with a list of four codes: 13 "
        "evaluations of the decoder, where the others have one. Vector quantization draws nothing: its bound is that "
        "of one z, with a KL of n log K.",
        "A code is alive that is used at least a tenth as often as if all were used alike.",
    ),
    quick=Quick(
        options={
            "data": "sample",
            "codes": 32,
            "epochs": 1,
            "batch_size": 100,
            "width": 8,
            "dimensions": 8,
            "revive_every": 5,
            "evaluate_images": 100,
        },
        note="the 4,500 pictures that come with hardmax in place of each set, 32 codes, 8 channels, 1 epoch of 45 "
        "steps, 100 test pictures",
    ),
)
