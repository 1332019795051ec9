"""Encoders and decoders as plain PyTorch modules."""

from hardmax.nn.convolutional import ConvDecoder, ConvEncoder, conv_pixels, conv_trunk
from hardmax.nn.heads import ComponentHead, GaussianHead, ScoreHead, leaky
from hardmax.nn.mlp import MLPDecoder, MLPEncoder, decoder_input, decoder_variables, decoder_width, encoder_output, mlp

__all__ = [
    "ComponentHead",
    "ConvDecoder",
    "ConvEncoder",
    "GaussianHead",
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
