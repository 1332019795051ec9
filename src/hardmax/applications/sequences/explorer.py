"""The latent explorer of a sequence GAN: a sampled sequence, and the probability of each next token."""

from typing import final

import torch
from torch import Tensor

from hardmax.applications.exploration import (
    AbstractExplorer,
    to_floats,
    write_prelude,
)
from hardmax.applications.explorer_controls import (
    BarsView,
    ChoiceControl,
    NumberControl,
    State,
    TextView,
    TokensView,
    View,
)
from hardmax.applications.sequences.report import SequenceGANRun
from hardmax.data.sequences import format_tokens
from hardmax.random import make_generator

_BARS = 24  # tokens whose probability is shown


@final
class SequenceExplorer(AbstractExplorer[SequenceGANRun]):
    """Sample a sequence, see the probability of each next token, and choose another one."""

    about = "Sample a sequence; click one of its tokens to see the others that were possible, and choose one of them."

    def __init__(self, run: SequenceGANRun) -> None:
        super().__init__(run)
        symbols = tuple(symbol or "(end)" for symbol in run.model.symbols)
        positions = tuple(str(i + 1) for i in range(run.model.generator.length))
        self.controls = (
            NumberControl("seed", "seed of the sample"),
            ChoiceControl("position", "position", ("position",), positions, hidden=True),
            ChoiceControl("tokens", "tokens", positions, symbols, hidden=True),
            ChoiceControl("token", "token at the position", ("token",), symbols, hidden=True),
        )
        self._symbols = symbols
        language = run.images.language
        self._sentences = None if language is None else {tuple(row) for row in language.tolist()}

    @torch.no_grad()
    def _sample(self, seed: int, prefix: list[int]) -> list[int]:
        """Return the tokens of a sequence that begins with a prefix; the seed determines the noise of the others."""
        generator = self._model.generator
        noise = generator.noise((1,), make_generator(seed, "sample"))
        z, state = generator.begin(1)
        tokens: list[int] = []
        for position in range(generator.length):
            scores, state = generator.step(z, state)
            z = generator.space.draw(scores, noise[None, :, position])[0]
            if position < len(prefix):
                z = (torch.arange(generator.space.k) == prefix[position]).to(scores.dtype)[None]
            tokens.append(int(z.argmax()))
        return tokens

    def update(self, state: State, changed: str, photo: None, before: State) -> State:
        """Sample the sequence again after a new seed, or the rest of it after another token."""
        if changed == "seed":
            state = {**state, "tokens": self._sample(state["seed"], [])}
        elif changed == "token":
            prefix = [*state["tokens"][: state["position"][0]], state["token"][0]]
            state = {**state, "tokens": self._sample(state["seed"], prefix)}
        return {**state, "token": [state["tokens"][state["position"][0]]]}

    def _make_one_hot(self, tokens: list[int]) -> Tensor:
        values = torch.arange(self._model.generator.space.k)
        return (torch.tensor(tokens)[None, :, None] == values).to(self._model.generator.head.weight.dtype)

    @torch.no_grad()
    def draw(self, state: State, photo: None) -> list[View]:
        """Return the sequence with the probability of each token, and the distribution at one position."""
        tokens, position = state["tokens"], state["position"][0]
        z = self._make_one_hot(tokens)
        q = self._model.generator.scores(z)[0].softmax(-1)
        each = to_floats(q.gather(-1, torch.tensor(tokens)[:, None]))
        text = format_tokens(tokens, self._model.symbols, self._model.between)
        sentence = f"“{text}”. log q = {float(self._model.generator.log_prob(z)[0]):.2f} nats."
        if self._sentences is not None:
            sentence += f" It is {'' if tuple(tokens) in self._sentences else 'not '}a sentence of the language."
        real = float(self._model.discriminator(z)[0, -1].sigmoid())
        sentence += f" For the discriminator it is real with probability {real:.2f}."
        order = q[position].argsort(descending=True, stable=True)[:_BARS].tolist()
        note = "Click a token to choose it; the rest of the sequence is sampled again."
        if len(order) < len(self._symbols):
            note += f" The {len(order)} most probable of {len(self._symbols)} are shown."
        return [
            TokensView(
                "Sequence",
                [self._symbols[token] for token in tokens],
                each,
                "Below each token: its probability, given those before it. Click a token to see the others.",
                "position",
                position,
            ),
            TextView(sentence),
            BarsView(
                f"q(token {position + 1} | the tokens before it)",
                [self._symbols[token] for token in order],
                to_floats(q[position][order]),
                note,
                "token",
                [tokens[position]],
                order,
            ),
        ]

    def write_python(self, state: State) -> str:
        """Return code that computes the probability of each next token of the sequence."""
        return (
            write_prelude(self._run)
            + f"tokens = torch.tensor({state['tokens']})\n"
            + "z = torch.nn.functional.one_hot(tokens, len(model.symbols)).float()[None]\n"
            + "probabilities = model.generator.scores(z)[0].softmax(-1)\n"
            + "print(model.to_texts(z)[0], float(model.generator.log_prob(z)))\n"
            + f"for symbol, q in zip(model.symbols, probabilities[{state['position'][0]}].tolist()):\n"
            + '    print(f"{q:.3f} {symbol}")\n'
        )
