"""Model options that OpenNMT-py accepts and fails on when it builds or first runs the model."""

from argparse import Namespace
from collections.abc import Collection

from onmt_define.errors import UserError

ROTARY = -1  # as max_relative_positions
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
    elif opt.decoder_type != "transformer_lm":
        raise UserError(
            f"decoder_type is {opt.decoder_type!r}, but model_task lm needs transformer_lm"
        )
    parts = {opt.decoder_type, opt.encoder_type} if has_encoder else {opt.decoder_type}
    if parts & {"rnn", "brnn"}:
        _check_recurrent(opt)
    if "cnn" in parts and opt.cnn_kernel_width % 2 == 0:
        raise UserError(f"cnn_kernel_width is {opt.cnn_kernel_width}, expected an odd number")
    if parts & {"transformer", "transformer_lm"}:
        _check_attention(opt)
        _check_experts(opt)
    if opt.copy_attn and not has_encoder:
        raise UserError(
            "copy_attn can't be combined with model_task lm: nothing could translate it"
        )
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


def _check_recurrent(opt: Namespace) -> None:
    if opt.encoder_type == "brnn" and opt.enc_hid_size % 2:
        raise UserError(f"hidden_size is {opt.enc_hid_size}, expected an even one for a brnn")
    if opt.decoder_type != "rnn":
        return
    unlike = opt.dec_layers != opt.enc_layers and not opt.input_feed
    if opt.dec_layers > opt.enc_layers or unlike:
        raise UserError(
            f"dec_layers is {opt.dec_layers}, but a decoder_type rnn begins with the states of the "
            f"encoder's layers, expected enc_layers: {opt.enc_layers}"
        )
    attention = opt.global_attention
    for option in ("coverage_attn", *["copy_attn"] * opt.reuse_copy_attn):
        if getattr(opt, option) and attention == "none":
            raise UserError(f"global_attention is none, but {option} needs dot, general or mlp")
    if opt.copy_attn and not opt.reuse_copy_attn and opt.copy_attn_type == "none":
        raise UserError("copy_attn_type is none, but copy_attn needs dot, general or mlp")
    for option in ("copy_attn", "coverage_attn", "context_gate"):
        if getattr(opt, option) and not opt.input_feed:
            raise UserError(f"input_feed is 0, but {option} needs input_feed: 1")


def _check_attention(opt: Namespace) -> None:
    if opt.num_kv and opt.heads % opt.num_kv:
        raise UserError(f"num_kv is {opt.num_kv}, expected a divisor of heads {opt.heads}")
    buckets = getattr(opt, "relative_positions_buckets", 0)
    if buckets and (buckets < 4 or opt.max_relative_positions <= buckets // 2):
        raise UserError(
            f"relative_positions_buckets is {buckets} with max_relative_positions "
            f"{opt.max_relative_positions}, expected at least 4, and positions of more than half "
            "of it"
        )
    if opt.max_relative_positions == ROTARY:
        head_width = opt.enc_hid_size // opt.heads
        turned = getattr(opt, "rotary_dim", 0)
        if head_width % 2:
            raise UserError(
                f"max_relative_positions is {ROTARY}, but rotary positions need an even "
                f"hidden_size / heads, which is {head_width}"
            )
        if turned % 2 or turned > head_width:
            raise UserError(
                f"rotary_dim is {turned}, expected an even number up to hidden_size / heads, which "
                f"is {head_width}"
            )


def _check_experts(opt: Namespace) -> None:
    experts, chosen = getattr(opt, "num_experts", 0), getattr(opt, "num_experts_per_tok", 0)
    if experts and not 1 <= chosen <= experts:
        raise UserError(f"num_experts_per_tok is {chosen}, expected 1 to num_experts {experts}")


def _check_widths(side: str, layer_type: str, width: int, opt: Namespace) -> None:
    has_features = side == "src" and getattr(opt, "n_src_feats", 0) > 0
    name = "word_vec_size" if opt.word_vec_size > 0 else f"{side}_word_vec_size"
    if opt.position_encoding and width % 2 and not has_features:
        raise UserError(f"{name} is {width}, expected an even number with position_encoding")
    if not layer_type.startswith("transformer"):
        return
    hidden_size = opt.enc_hid_size
    if hidden_size % opt.heads:
        raise UserError(f"heads is {opt.heads}, expected a divisor of hidden_size {hidden_size}")
    if width != hidden_size and not has_features:
        raise UserError(
            f"{name} is {width}, but a Transformer of hidden_size {hidden_size} needs "
            f"{name}: {hidden_size}"
        )
