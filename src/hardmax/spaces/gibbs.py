"""Base class of structured spaces that can sum over their members."""

from abc import abstractmethod

from jaxtyping import Float
from torch import Tensor

from hardmax.spaces.abstract import AbstractSpace, prepare_scores


class AbstractGibbs(AbstractSpace):
    r"""A space that can sum over its members.

    $$ \log Z = \log \sum_z \exp \langle \mathrm{scores}, \mathrm{statistics}(z) \rangle $$

    Different scores may belong to the same q. Those with $\log Z = 0$, the *normalised* scores $\tilde s$, give

    $$ \log q(z) = \langle \tilde s, \mathrm{statistics}(z) \rangle, \qquad
       H(q) = -\langle \tilde s, \mathrm{marginals} \rangle, \qquad
       \mathrm{KL}(q \,\|\, p) = \langle \tilde s - \tilde t, \mathrm{marginals} \rangle $$

    and let large scores cancel part by part. Everything is plain torch, so gradients of any order exist; half
    precision is computed in float32.
    """

    @abstractmethod
    def log_partition(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\log Z$: `[*B, *score] -> [*B]`, differentiable; its gradient is `marginals`."""

    @abstractmethod
    def _normalise(self, scores: Tensor) -> Tensor:
        """Return the normalised scores of the same q, in the dtype of these: `[*B, *score]`."""

    @abstractmethod
    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normalised scores and the marginals, in the dtype of scores: `[*B, *score]` each."""

    def log_prob(self, scores: Float[Tensor, "..."], z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\langle \mathrm{scores}, \mathrm{statistics}(z) \rangle - \log Z$."""
        self.batch_shape(scores)
        normalised = self._normalise(prepare_scores(scores))
        return self.dot(normalised, self.statistics(z.to(normalised.dtype))).to(scores.dtype)

    def entropy(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\log Z - \langle \mathrm{scores}, \mathrm{marginals} \rangle$, in nats."""
        self.batch_shape(scores)
        normalised, marginals = self._moments(prepare_scores(scores))
        return -self.dot(normalised, marginals).to(scores.dtype)

    def kl(self, scores: Float[Tensor, "..."], prior: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
        r"""Return $\mathrm{KL}(q \,\|\, p)$; p is given by its scores, or uniform over the members."""
        self.batch_shape(scores)
        normalised, marginals = self._moments(prepare_scores(scores))
        if prior is None:
            return (self.dot(normalised, marginals) + self.log_size).to(scores.dtype)
        self.batch_shape(prior)
        return self.dot(normalised - self._normalise(prepare_scores(prior)), marginals).to(scores.dtype)

    def marginals(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\mathbb{E}_q[\mathrm{statistics}(z)]$."""
        self.batch_shape(scores)
        return self._moments(prepare_scores(scores))[1].to(scores.dtype)
