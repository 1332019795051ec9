"""Encoders and decoders: plain modules."""

from hardmax.nn.beside import ConvBeside, MLPBeside
from hardmax.nn.causal import CausalTransformer
from hardmax.nn.codebook import Codebook
from hardmax.nn.convolutional import ConvDecoder, ConvEncoder, conv_pixels, conv_trunk
from hardmax.nn.grid import GridDecoder, GridEncoder
from hardmax.nn.heads import ComponentHead, GaussianHead, ScoreHead, leaky
from hardmax.nn.inputs import decoder_input, decoder_variables, decoder_width
from hardmax.nn.mlp import MLPDecoder, MLPEncoder, mlp
from hardmax.nn.outputs import encoder_output

__all__ = [
    "CausalTransformer",
    "Codebook",
    "ComponentHead",
    "ConvBeside",
    "ConvDecoder",
    "ConvEncoder",
    "GaussianHead",
    "GridDecoder",
    "GridEncoder",
    "MLPBeside",
    "MLPDecoder",
    "MLPEncoder",
    "ScoreHead",
    "conv_pixels",
    "conv_trunk",
    "decoder_input",
    "decoder_variables",
    "decoder_width",
    "encoder_output",
    "leaky",
    "mlp",
]
