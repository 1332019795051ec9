"""Layers that make a discrete choice, and encoders and decoders, as plain PyTorch modules."""

from hardmax._deprecation import load_renamed
from hardmax.nn.codebook import Codebook
from hardmax.nn.convolutional import ConvDecoder, ConvEncoder, build_conv_decoder, build_conv_trunk
from hardmax.nn.finite_scalar import FiniteScalarQuantizer
from hardmax.nn.first_layer import FirstLayer, split_first_layer
from hardmax.nn.heads import ComponentHead, GaussianHead, ScoreHead, build_leaky_relu
from hardmax.nn.linear import Linear
from hardmax.nn.lookup_free import LookupFreeQuantizer
from hardmax.nn.mlp import (
    MLPDecoder,
    MLPEncoder,
    build_mlp,
    convert_to_scores,
    count_decoder_inputs,
    index_decoder_variables,
    make_decoder_input,
)
from hardmax.nn.quantization import CodeUsage, Quantization
from hardmax.nn.quantizer import Quantizer
from hardmax.nn.router import TopKRouter
from hardmax.nn.routing import ExpertLoad, Routing, mix_experts
from hardmax.nn.selection import HardAttention, SelectK
from hardmax.nn.solver_layer import SolverLayer

__all__ = [
    "CodeUsage",
    "Codebook",
    "ComponentHead",
    "ConvDecoder",
    "ConvEncoder",
    "ExpertLoad",
    "FiniteScalarQuantizer",
    "FirstLayer",
    "GaussianHead",
    "HardAttention",
    "Linear",
    "LookupFreeQuantizer",
    "MLPDecoder",
    "MLPEncoder",
    "Quantization",
    "Quantizer",
    "Routing",
    "ScoreHead",
    "SelectK",
    "SolverLayer",
    "TopKRouter",
    "build_conv_decoder",
    "build_conv_trunk",
    "build_leaky_relu",
    "build_mlp",
    "convert_to_scores",
    "count_decoder_inputs",
    "index_decoder_variables",
    "make_decoder_input",
    "mix_experts",
    "split_first_layer",
]

_RENAMED = {
    "conv_pixels": "build_conv_decoder",
    "conv_trunk": "build_conv_trunk",
    "decoder_input": "make_decoder_input",
    "decoder_variables": "index_decoder_variables",
    "decoder_width": "count_decoder_inputs",
    "encoder_output": "convert_to_scores",
    "leaky": "build_leaky_relu",
    "mlp": "build_mlp",
}
__getattr__ = load_renamed(__name__, _RENAMED)
globals().pop("mlp", None)  # the module of that name, which would hide the former name
