"""Images as tokens: ten ways to choose and to learn the codes, compared at an equal number of small steps."""

from hardmax.experiments.tables import dvae
from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import ALIVE, BOUND, ERROR, PERPLEXITY, PSNR, SSIM

EPOCHS = 2  # of 500 steps
FACES_EPOCHS = 25  # of 40 steps

DATA: dict[str, Options] = {
    "Fashion-MNIST": {**dvae.DATA["Fashion-MNIST"], "epochs": EPOCHS},
    "faces": {**dvae.DATA["faces"], "epochs": FACES_EPOCHS},
}
METHODS: dict[str, tuple[str, Options]] = {
    "nearest code": ("nearest", {"quantize": "nearest"}),
    "rotation trick": ("nearest", {"quantize": "rotate"}),
    "running means": ("nearest", {"quantize": "average"}),
    "SimVQ": ("nearest", {"quantize": "linear"}),
    "FSQ": ("no codebook", {"quantize": "finite"}),
    **{
        name: ("sampled, ours" if name == "posterior direct" else "sampled", dvae.METHODS[name][1])
        for name in ("Gumbel-softmax", "Gumbel-softmax, hard", "straight-through", "ReinMax", "posterior direct")
    },
}

TOKENIZERS = Experiment(
    name="tokenizers",
    title="Tokens of images, by quantizer",
    claim="Vector quantization with nearest codes, its variants without collapse, and models with sampled codes are "
    "rarely compared with the same networks. Which one reconstructs best, and which one uses its codes?",
    setting="Fashion-MNIST: 28 x 28 grey pixels as 7 x 7 tokens of 128 codes, 100 images per step. Faces, the data "
    "set `faces`, which you provide: 64 x 64 RGB pixels as 8 x 8 tokens of 256 codes, 50 images per step. 1,000 steps, "
    "small convolutional networks of 8 channels and more, Gaussian pixels with a learned variance, Adam with a "
    "learning rate of 2e-3 that falls to zero over the second half. Codes that are hardly used are replaced during the "
    "first half. All numbers are of at most 2,000 test images. PSNR (decibels) and SSIM are those of images "
    "reconstructed from the most likely tokens.",
    options={"model": "dvae", "width": 8},
    cells=tuple(
        Cell(data, method, group, 2e-3, {**data_options, **options})
        for data, data_options in DATA.items()
        for method, (group, options) in METHODS.items()
    ),
    seeds=(0, 1, 2),
    metrics=(BOUND, PSNR, SSIM, ERROR, PERPLEXITY, ALIVE),
    epochs=(EPOCHS, FACES_EPOCHS),
    figures=(CurvesFigure((tuple(Panel("epoch", data) for data in DATA),)),),
    notes=(
        "The codes that are sampled are trained for the bound, whose KL makes tokens easy to predict and images "
        "coarser; its weight grows from 0 to 1 over the first fifth of the run. The others are trained to reconstruct, "
        "and their bound is that of one z, with a KL of n log K.",
        "Finite scalar quantization has 8 x 4 x 4 levels on Fashion-MNIST and 8 x 8 x 4 on faces, in three dimensions; "
        "codes have 32 dimensions. Posterior direct evaluates 13 z in every step, the others one.",
        "A code is alive if it is used at least a tenth as often as under uniform use.",
    ),
    quick=Quick(
        options={
            "data": "sample",
            "codes": 32,
            "epochs": 1,
            "batch_size": 100,
            "dimensions": 8,
            "revive_every": 5,
            "evaluate_images": 100,
        },
        note="the 4,500 images that come with hardmax in place of each data set, 32 codes, 1 epoch of 45 steps, 100 "
        "test images",
    ),
)
