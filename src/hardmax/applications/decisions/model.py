"""The decision model: a network that predicts scores, and the problem whose solver decides by them."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from hardmax.applications.decisions.problems import find_problem
from hardmax.errors import ArgumentError, ShapeError
from hardmax.models.pretrained import AbstractModel

_CHUNK = 256  # examples in one call of the network: the layers of a convolutional network take much memory


@final
class DecisionModel(AbstractModel):
    r"""A network that predicts scores from features, and decides by them.

    $$ z(x) = \operatorname{argmax}_z \langle \mathrm{scores}(x), z \rangle $$

    Scores are values, larger is better: minus the predicted costs. It is saved with its problem.

    Args:
        problem: name of the problem, one of `PROBLEMS`.
        parameters: what all examples share, see `hardmax.data.Decisions`.
        features: shape of the features of one example.
        hidden: width of a hidden layer; 0: the network is linear. For images, the number of channels; 0: the default.
        network: name of one of the problem's networks; None: the first, or the only one.

    Raises:
        ArgumentError: an unknown problem or network, or parameters and sizes that it cannot have.

    Example:
        >>> import torch
        >>> from hardmax.applications.decisions import DecisionModel
        >>> model = DecisionModel("path", {"grid": [5, 5]}, [5])
        >>> x = torch.randn(10, 5)
        >>> model(x).shape, model.decide(x).sum(-1)
        (torch.Size([10, 40]), tensor([8., 8., 8., 8., 8., 8., 8., 8., 8., 8.]))

    References:
        Elmachtoub & Grigas, "Smart 'predict, then optimize'", 2022.
    """

    kind = "decision-model"

    def __init__(
        self,
        problem: str,
        parameters: Mapping[str, Any],
        features: Sequence[int],
        hidden: int = 0,
        network: str | None = None,
    ) -> None:
        super().__init__()
        if hidden < 0 or not features or min(features) < 1:
            raise ArgumentError(
                f"features must be a shape and hidden a width, 0 for none, got {list(features)} and {hidden}"
            )
        self.problem = find_problem(problem)
        self.space = self.problem.build_space(parameters, None)
        self.features = tuple(features)
        self.network = self.problem.find_network(network)(self.features, self.space.score_shape, hidden)
        self._config = {
            "problem": problem,
            "parameters": dict(parameters),
            "features": list(features),
            "hidden": hidden,
            "network": network,
        }

    def forward(self, x: Shaped[Tensor, "N ..."]) -> Float[Tensor, "N ..."]:
        """Return the scores of examples: `[N, *features] -> [N, *score]`."""
        if tuple(x.shape[1:]) != self.features:
            learned = ", ".join(map(str, self.features))
            raise ShapeError(f"features have shape {list(x.shape)}, but the model has learned [N, {learned}]")
        return self.network(x).view(len(x), *self.space.score_shape)

    @torch.no_grad()
    def predict(self, x: Shaped[Tensor, "N ..."]) -> Float[Tensor, "N ..."]:
        """Return the scores of any number of examples, computed in chunks, without a gradient."""
        return torch.cat([self(part) for part in x.split(_CHUNK)])

    def decide(self, x: Shaped[Tensor, "N ..."]) -> Float[Tensor, "N ..."]:
        """Return the decisions, zeros and ones: `[N, *features] -> [N, *event]`."""
        return self.space.argmax(self.predict(x))

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "DecisionModel":
        return cls(config["problem"], config["parameters"], config["features"], config["hidden"], config["network"])
