"""Encoders and decoders: plain modules."""

from hardmax.nn.convolutional import ConvDecoder, ConvEncoder
from hardmax.nn.inputs import decoder_input
from hardmax.nn.mlp import MLPDecoder, MLPEncoder
from hardmax.nn.outputs import encoder_output

__all__ = ["ConvDecoder", "ConvEncoder", "MLPDecoder", "MLPEncoder", "decoder_input", "encoder_output"]
