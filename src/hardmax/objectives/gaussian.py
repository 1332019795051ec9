"""Gaussian z: reparameterized samples, KL divergences in closed form, the evidence lower bound, and log p(x).

The spread of a Gaussian is always given by the logarithm of its variances, or by a Cholesky factor of its covariance.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.objectives.bounds import Bounds
from hardmax.objectives.elbo import Elbo
from hardmax.random import choose_noise_dtype
from hardmax.tracing import can_read_values
from hardmax.types import Objective
from hardmax.validation import check_finite, check_samples, find_first_index

Form = Literal["prior-contrastive", "joint-contrastive"]


def gaussian_sample(
    mean: Float[Tensor, "*B D"],
    log_variance: Float[Tensor, "*B D"],
    samples: int = 1,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "S *B D"]:
    r"""Draw Gaussian samples that carry a gradient.

    $$ z = \mathrm{mean} + \mathrm{noise} \cdot e^{l / 2} $$

    where $l$ is the log-variance and the noise is standard normal. This is the reparameterization trick: the gradient
    of a mean of $f(z)$ is an unbiased estimate of the gradient of $\mathbb{E}[f(z)]$. f must be differentiable.

    Args:
        mean: `[*B, D]`.
        log_variance: `[*B, D]`.
        samples: S, the number of samples.
        generator: where the noise comes from; None is torch's global generator.

    Returns:
        `[S, *B, D]`.

    Raises:
        ArgumentError: samples < 1; `ShapeError`, `DtypeError`: mean and log_variance do not fit.

    Example:
        >>> import torch, hardmax as hm
        >>> mean, log_variance = torch.zeros(8, 2, requires_grad=True), torch.zeros(8, 2)
        >>> z = hm.gaussian_sample(mean, log_variance, samples=5)
        >>> z.shape, z.requires_grad
        (torch.Size([5, 8, 2]), True)

    References:
        Kingma & Welling, "Auto-encoding variational Bayes", 2014, section 2.4.
    """
    _check_diagonal(mean, log_variance)
    return mean + _draw_noise(mean, samples, generator) * (log_variance / 2).exp()


def gaussian_sample_full(
    mean: Float[Tensor, "*B D"],
    scale_tril: Float[Tensor, "*B D D"],
    samples: int = 1,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "S *B D"]:
    r"""Draw Gaussian samples $z = \mathrm{mean} + L \, \mathrm{noise}$ with covariance $L L^T$ that carry a gradient.

    Args:
        mean: `[*B, D]`.
        scale_tril: `[*B, D, D]`, L; entries above its diagonal are ignored.
        samples: S, the number of samples.
        generator: where the noise comes from; None is torch's global generator.

    Returns:
        `[S, *B, D]`.

    Raises:
        ArgumentError: samples < 1; `ShapeError`, `DtypeError`: mean and scale_tril do not fit.

    Example:
        >>> import torch, hardmax as hm
        >>> covariance = torch.tensor([[1.0, 0.8], [0.8, 1.0]])
        >>> hm.gaussian_sample_full(torch.zeros(2), torch.linalg.cholesky(covariance), samples=5).shape
        torch.Size([5, 2])

    References:
        Kingma & Welling, "Auto-encoding variational Bayes", 2014, section 2.4.
    """
    _check_full(mean, scale_tril)
    return mean + (scale_tril.tril() @ _draw_noise(mean, samples, generator)[..., None]).squeeze(-1)


def gaussian_kl(
    mean: Float[Tensor, "*B D"],
    log_variance: Float[Tensor, "*B D"],
    mean2: Float[Tensor, "..."] | None = None,
    log_variance2: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*B"]:
    r"""Return the KL divergence $\mathrm{KL}(\mathcal{N}(m, e^l) \,\|\, \mathcal{N}(m_2, e^{l_2}))$, in nats.

    $m$ is the mean and $l$ the log-variance; $m_2$ and $l_2$ are `mean2` and `log_variance2`.

    $$ \frac{1}{2} \sum_i \big[l_{2i} - l_i + e^{l_i - l_{2i}} + (m_i - m_{2i})^2 e^{-l_{2i}} - 1\big] $$

    It is zero where both are equal, never negative. Against the standard normal it is
    $-\frac{1}{2} \sum_i [1 + l_i - m_i^2 - e^{l_i}]$.

    Args:
        mean: `[*B, D]`.
        log_variance: `[*B, D]`.
        mean2: `[*B, D]` or broadcastable to it; None is 0.
        log_variance2: `[*B, D]` or broadcastable to it; None is 0, a variance of 1.

    Returns:
        `[*B]`.

    Raises:
        ShapeError: mean and log_variance do not fit, or the second Gaussian does not fit the first; `DtypeError`:
            tensors of integers.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.gaussian_kl(torch.tensor([1.0, 0.0]), torch.zeros(2))
        tensor(0.5000)

    References:
        Kingma & Welling, "Auto-encoding variational Bayes", 2014, appendix B.
    """
    _check_diagonal(mean, log_variance)
    mean2 = mean.new_zeros(()) if mean2 is None else _expand_second("mean2", mean2, mean)
    log_variance2 = (
        mean.new_zeros(()) if log_variance2 is None else _expand_second("log_variance2", log_variance2, mean)
    )
    gap = log_variance - log_variance2
    # expm1 keeps e^gap - 1 - gap, which is about gap^2 / 2, from being lost in the rounding of 1.
    return (gap.expm1() - gap + (mean - mean2).square() * (-log_variance2).exp()).sum(-1) / 2


def gaussian_kl_full(
    mean: Float[Tensor, "*B D"],
    scale_tril: Float[Tensor, "*B D D"],
    mean2: Float[Tensor, "..."] | None = None,
    scale_tril2: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*B"]:
    r"""Return the KL divergence $\mathrm{KL}(\mathcal{N}(m, C) \,\|\, \mathcal{N}(m_2, C_2))$, in nats.

    $m$ is the mean and $C = L L^T$ the covariance, from its Cholesky factor L; $m_2$ and $L_2$ are `mean2` and
    `scale_tril2`.

    $$ \frac{1}{2} \big[\log \det C_2 - \log \det C + \operatorname{tr}(C_2^{-1} C)
       + (m_2 - m)^T C_2^{-1} (m_2 - m) - D\big] $$

    Args:
        mean: `[*B, D]`.
        scale_tril: `[*B, D, D]`, L with a positive diagonal; entries above it are ignored.
        mean2: `[*B, D]` or broadcastable to it; None is 0.
        scale_tril2: `[*B, D, D]` or broadcastable to it; None is the identity.

    Returns:
        `[*B]`.

    Raises:
        ArgumentError: a diagonal is not positive; `ShapeError`, `DtypeError`: tensors do not fit.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.gaussian_kl_full(torch.tensor([1.0, 0.0]), torch.eye(2))
        tensor(0.5000)

    References:
        Kullback, "Information theory and statistics", 1959, chapter 9.
    """
    _check_full(mean, scale_tril)
    scale, shift = scale_tril.tril(), mean if mean2 is None else mean - _expand_second("mean2", mean2, mean)
    log_det = _sum_log_diagonal("scale_tril", scale)
    if scale_tril2 is not None:
        scale2 = _expand_second("scale_tril2", scale_tril2, scale_tril)
        log_det = log_det - _sum_log_diagonal("scale_tril2", scale2)
        scale = torch.linalg.solve_triangular(scale2, scale, upper=False)
        shift = torch.linalg.solve_triangular(scale2, shift[..., None], upper=False).squeeze(-1)
    # tr(C2^-1 C) is the squared Frobenius norm of L2^-1 L.
    return (scale.square().sum((-2, -1)) + shift.square().sum(-1) - mean.shape[-1]) / 2 - log_det


def gaussian_elbo(
    likelihood: Objective,
    mean: Float[Tensor, "*B D"],
    log_variance: Float[Tensor, "*B D"],
    *,
    form: Form = "prior-contrastive",
    samples: int = 1,
    generator: torch.Generator | None = None,
    validate: bool = True,
) -> Elbo:
    r"""Estimate the evidence lower bound for $q = \mathcal{N}(m, e^l)$ and the prior $p(z) = \mathcal{N}(0, I)$.

    $m$ is the mean and $l$ the log-variance. With S reparameterized samples $z_s$ of q (the SGVB estimators):

    - `"prior-contrastive"`: $\frac{1}{S} \sum_s \log p(x \mid z_s) - \mathrm{KL}(q \,\|\, p)$, with the KL in closed
      form;
    - `"joint-contrastive"`: $\frac{1}{S} \sum_s [\log p(x \mid z_s) + \log p(z_s) - \log q(z_s)]$.

    Bias: none in value and gradient of both forms. Variance: falls as $1 / S$. The prior-contrastive form usually has
    less, but the value of the joint-contrastive form has none if q is the true posterior. Cost: S evaluations of the
    likelihood, which must be differentiable in z.

    Args:
        likelihood: $\log p(x \mid z)$, an objective that maps z `[C, *B, D]` to `[C, *B]`; `BernoulliLikelihood`,
            `GaussianLikelihood`.
        mean: `[*B, D]`, floating point, finite; an output of the encoder.
        log_variance: `[*B, D]`, the same.
        form: which of the two forms.
        samples: S, the number of samples.
        generator: where the noise comes from; None is torch's global generator.
        validate: check values for NaN and inf; never done while compiling or under `torch.func`.

    Returns:
        The bound and its terms; `kl` is the mean of $\log q(z_s) - \log p(z_s)$ in the joint-contrastive form. There is
        no arg max: `solves` is 0.

    Raises:
        ArgumentError: an argument, or a value of the likelihood, is invalid; `ShapeError` and `DtypeError` are
            subclasses.

    Example:
        >>> import torch, hardmax as hm
        >>> encoder, decoder = torch.nn.Linear(784, 2 * 20), torch.nn.Linear(20, 784)
        >>> x = torch.rand(8, 784).round()
        >>> mean, log_variance = encoder(x).chunk(2, dim=-1)
        >>> out = hm.gaussian_elbo(hm.BernoulliLikelihood(decoder, x), mean, log_variance)
        >>> (-out.value.mean()).backward()
        >>> out.value.shape, encoder.weight.grad.shape
        (torch.Size([8]), torch.Size([40, 784]))

    References:
        Kingma & Welling, "Auto-encoding variational Bayes", 2014, eq. 6 (joint-contrastive) and 7
        (prior-contrastive).
    """
    if form not in ("prior-contrastive", "joint-contrastive"):
        raise ArgumentError(f"form must be 'prior-contrastive' or 'joint-contrastive', got {form!r}")
    _check_diagonal(mean, log_variance)
    validate = validate and can_read_values()
    if validate:
        _check_finite("mean", mean)
        _check_finite("log_variance", log_variance)
    noise = _draw_noise(mean, samples, generator)
    z = mean + noise * (log_variance / 2).exp()
    values = likelihood(z)
    _check_values(values, z.shape[:-1], validate)
    reconstruction = values.mean(0)
    if form == "prior-contrastive":
        kl = gaussian_kl(mean, log_variance)
    else:
        # log q(z) - log p(z), where z is mean + noise * e^(log_variance / 2): (z - mean)^2 / variance is noise^2.
        kl = (z.square() - noise.square() - log_variance).sum(-1).mean(0) / 2
    return Elbo(
        reconstruction - kl,
        z.detach(),
        evaluations=float(samples),
        solves=0.0,
        reconstruction=reconstruction.detach(),
        kl=kl.detach(),
    )


def _draw_noise(mean: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """Draw standard normal noise `[S, *B, D]` for a mean `[*B, D]`."""
    check_samples(samples)
    shape, dtype = (samples, *mean.shape), choose_noise_dtype(mean.dtype)
    return torch.randn(shape, generator=generator, dtype=dtype, device=mean.device).to(mean.dtype)


def _sum_log_diagonal(name: str, scale_tril: Tensor) -> Tensor:
    """Return the sum of the logarithms of the diagonal, `[*B, D, D] -> [*B]`."""
    diagonal = scale_tril.diagonal(dim1=-2, dim2=-1)
    if can_read_values() and (wrong := ~(diagonal > 0)).any():
        index = find_first_index(wrong)
        raise ArgumentError(
            f"the diagonal of {name} must be positive, got {diagonal[tuple(index)].item()} at index {index}; pass "
            f"torch.linalg.cholesky(covariance), or make the diagonal with exp or softplus"
        )
    return diagonal.log().sum(-1)


def _expand_second(name: str, second: Tensor, first: Tensor) -> Tensor:
    """Return a parameter of the second Gaussian, checked and expanded to the shape of the first's."""
    _check_float(name, second)
    try:
        return second.expand_as(first)
    except RuntimeError:
        raise ShapeError(
            f"{name} has shape {list(second.shape)}, which does not broadcast to the first Gaussian's "
            f"{list(first.shape)}; expand the first one, or pass a {name} for each of its examples"
        ) from None


def _check_diagonal(mean: Tensor, log_variance: Tensor) -> None:
    _check_float("mean", mean)
    _check_float("log_variance", log_variance)
    if mean.dim() < 1 or mean.shape != log_variance.shape:
        raise ShapeError(
            f"mean and log_variance must have the same shape [*B, D], got {list(mean.shape)} and "
            f"{list(log_variance.shape)}; expand the smaller one, or split the encoder's output with chunk(2, dim=-1)"
        )


def _check_full(mean: Tensor, scale_tril: Tensor) -> None:
    _check_float("mean", mean)
    _check_float("scale_tril", scale_tril)
    if mean.dim() < 1 or scale_tril.shape != (*mean.shape, mean.shape[-1]):
        raise ShapeError(
            f"mean and scale_tril must have shapes [*B, D] and [*B, D, D], got {list(mean.shape)} and "
            f"{list(scale_tril.shape)}; for one factor for the entire batch, pass scale_tril.expand(*B, D, D)"
        )


def _check_float(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise DtypeError(f"{name} must be a floating-point tensor, got {got}")


def _check_finite(name: str, tensor: Tensor) -> None:
    # A finite sum has finite terms; only a sum that is not finite needs a closer look.
    if not tensor.sum().isfinite() and not (finite := tensor.isfinite()).all():
        index = find_first_index(~finite)
        raise ArgumentError(
            f"{name} must be finite, got {tensor[tuple(index)].item()} at index {index} "
            f"({int((~finite).sum())} of {tensor.numel()} are not finite); look for a diverged encoder"
        )


def _check_values(values: Tensor, shape: tuple[int, ...], validate: bool) -> None:
    """Check the values that the likelihood returned."""
    _check_float("what the likelihood returns", values)
    if values.shape != shape:
        raise ShapeError(
            f"the likelihood must return one value per sample and example, shape {list(shape)}, got "
            f"{list(values.shape)}; it maps z [C, *B, D] to [C, *B]: sum over the pixels only"
        )
    if validate:
        check_finite(values, "the likelihood", lambda index: index[1:])


def gaussian_bounds(
    likelihood: Objective,
    mean: Float[Tensor, "*B D"],
    log_variance: Float[Tensor, "*B D"],
    *,
    samples: int,
    generator: torch.Generator | None = None,
) -> Bounds:
    r"""Return bounds from S samples of $q = \mathcal{N}(m, e^l)$: the ELBO, and the importance-weighted bound.

    $m$ is the mean and $l$ the log-variance. The second bound is

    $$ \log \frac{1}{S} \sum_s \frac{p(x, z_s)}{q(z_s)} $$

    In expectation, it is a lower bound of $\log p(x)$, which it approaches as S grows. The prior is
    $\mathcal{N}(0, I)$.

    Args:
        likelihood: $\log p(x \mid z)$; it maps z `[C, *B, D]` to `[C, *B]`.
        mean: `[*B, D]`.
        log_variance: `[*B, D]`.
        samples: S, the number of samples, which are decoded one at a time.
        generator: where the samples come from; None is torch's global generator.

    Returns:
        The bounds; all fields are `[*B]`, and the KL is exact.

    Raises:
        ArgumentError: samples < 1, or `gaussian_elbo` does not accept an argument.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(2, 784), torch.rand(8, 784).round())
        >>> zeros = torch.zeros(8, 2)
        >>> hm.gaussian_bounds(likelihood, zeros, zeros, samples=16).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    check_samples(samples)
    # With one sample, the joint-contrastive form is the logarithm of its weight.
    draws = [
        gaussian_elbo(likelihood, mean, log_variance, form="joint-contrastive", generator=generator)
        for _ in range(samples)
    ]
    weights = torch.stack([draw.value for draw in draws])
    reconstruction = torch.stack([draw.reconstruction for draw in draws]).mean(0)
    kl = gaussian_kl(mean, log_variance)
    return Bounds.from_weights(weights, reconstruction, kl)
