"""Model options that OpenNMT-py accepts and fails on when it builds or first runs the model."""

from argparse import Namespace
from collections.abc import Collection

from onmt_define.errors import UserError

SELF_ATTENTION_TYPES = ("scaled-dot-flash", "scaled-dot", "average")
# What each encoder hands over, a final state or none, is not what every decoder starts from.
DECODERS_FOR_ENCODER = {
    "transformer": ("transformer", "transformer_lm"),
    "cnn": ("cnn",),
    **dict.fromkeys(
        ("rnn", "brnn", "mean", "ggnn"), ("rnn", "ifrnn", "transformer", "transformer_lm")
    ),
}


def check_model_options(opt: Namespace) -> None:
    """Check the parts of the model against OpenNMT-py's registries and against each other.

    Raises:
        UserError: one sentence naming the option, its value and what is expected.
    """
    from onmt.decoders import str2dec
    from onmt.encoders import str2enc

    has_encoder = opt.model_task != "lm"
    if has_encoder:
        _require_one_of("encoder_type", opt.encoder_type, str2enc)
    _require_one_of("decoder_type", opt.decoder_type, str2dec)
    _require_one_of("self_attn_type", opt.self_attn_type, SELF_ATTENTION_TYPES)
    if has_encoder:
        _check_pairing(opt)
        _check_widths("src", opt.encoder_type, opt.src_word_vec_size, opt)
    _check_widths("tgt", opt.decoder_type, opt.tgt_word_vec_size, opt)


def _require_one_of(option: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise UserError(f"{option} is {value!r}, expected one of {', '.join(allowed)}")


def _check_pairing(opt: Namespace) -> None:
    fitting = DECODERS_FOR_ENCODER.get(opt.encoder_type, (opt.decoder_type,))
    if opt.decoder_type not in fitting:
        raise UserError(
            f"decoder_type is {opt.decoder_type!r}, but encoder_type {opt.encoder_type} needs "
            f"{' or '.join(fitting)}"
        )


def _check_widths(side: str, layer_type: str, width: int, opt: Namespace) -> None:
    if not layer_type.startswith("transformer"):
        return
    hidden_size = opt.enc_hid_size
    if hidden_size % opt.heads:
        raise UserError(f"heads is {opt.heads}, expected a divisor of hidden_size {hidden_size}")
    has_features = side == "src" and getattr(opt, "n_src_feats", 0) > 0
    if width != hidden_size and not has_features:
        name = "word_vec_size" if opt.word_vec_size > 0 else f"{side}_word_vec_size"
        raise UserError(
            f"{name} is {width}, but a Transformer of hidden_size {hidden_size} needs "
            f"{name}: {hidden_size}"
        )
