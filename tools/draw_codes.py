"""Draw the figure of docs/how-to/quantize-vectors.md: ``draw_codes.py [docs/how-to/quantize-vectors.png]``.

How often each of 64 codes is used by the autoencoder of that page, with and without the maintenance of the codebook.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import hardmax as hm
from hardmax.data import binarize, load_images
from hardmax.drawing.style import use_plot_style

STEPS, CODES = 200, 64


def measure_shares(x: Tensor, *, maintain: bool) -> Tensor:
    """Train the autoencoder of the page; return the share of each code in percent, the most used first."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1))
    decoder = nn.Sequential(nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))
    quantizer = hm.nn.Quantizer(16, CODES, maintain=maintain, learning="gradient")
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *quantizer.parameters()], lr=2e-3)
    for _ in range(STEPS):
        batch = x[torch.randint(len(x), (40,))]
        out = quantizer(encoder(batch).movedim(1, -1))
        optimizer.zero_grad()
        ((decoder(out.quantized.movedim(-1, 1)) - batch).square().mean() + out.loss).backward()
        optimizer.step()
    with torch.no_grad():
        share = quantizer.eval()(encoder(x).movedim(1, -1)).usage.share
    return 100 * share.sort(descending=True).values


def main(path: Path) -> None:
    """Draw both panels and write the file."""
    x = binarize(load_images("sample").train[:2000], "none")
    with use_plot_style("codes"):
        figure = Figure(figsize=(8, 2.6), layout="constrained")
        for axes, maintain in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
            share = measure_shares(x, maintain=maintain)
            axes.bar(range(CODES), share.tolist(), width=1.0)
            axes.axhline(100 / CODES, color="0.4", linewidth=1)
            axes.set_title(f"maintain={maintain}: {int((share > 0).sum())} of {CODES} codes in use", fontsize=10)
            axes.set(xlabel="codes, most used first", yscale="log", ylim=(0.02, 100), xlim=(-0.6, CODES - 0.4))
            axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        figure.axes[0].set_ylabel("share of vectors (%)")
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/how-to/quantize-vectors.png"))
