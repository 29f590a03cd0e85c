"""A DeFINE unit as one differentiable function on a GPU: matrix products and one kernel between.

Compared with the unit's own `forward` it saves the copies for concatenation and for transposing
groups, and most of the launches. It can be differentiated once. Values and gradients differ from
the unit's own by rounding alone in float32 and float16; in bfloat16 tanh is the processor's own, a
quarter of that type's rounding off, and GELU is approximated to 2.6e-5 and its slope to 1.1e-4,
below the type's rounding for all but small results (`short_gelu.py`).
"""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    from onmt_define.embeddings import mix_norm_kernels, weight_gradient_kernels
except ImportError:  # torch's CPU builds come without Triton
    mix_norm_kernels = None

from onmt_define.embeddings.weight_gradient_tiles import MapShape, choose_tiling

# Up to this many entries a dense product is faster than its diagonal blocks alone.
LARGEST_DENSE_PRODUCT = 1 << 19
# Up to this many entries all gradients of weights together are faster with the tokens split: 59 us
# against cuBLAS's 77 at 0.4 million, 91 against 78 at 1.9.
LARGEST_SPLIT_GRADIENTS = 1 << 20
# 16-bit widths that are no multiple of this make cuBLAS fall back to kernels of older cards.
ALIGNED = 8
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# Beyond this a row doesn't fit the registers of one program.
WIDEST_ROW = 16_384


def can_fuse(unit: Any, inputs: Tensor) -> bool:
    """Whether `fused_forward` serves this unit and these inputs; a CPU, for one, can't run it."""
    return (
        mix_norm_kernels is not None
        and not torch.compiler.is_compiling()
        and inputs.is_cuda
        and inputs.dtype in DTYPES
        and inputs.numel() > 0
        and unit.has_fused_form
        and _kernels_run(inputs.device)
        and not _would_freeze_dropout(unit)
    )


def _would_freeze_dropout(unit: Any) -> bool:
    """A CUDA graph would repeat the seed, and so the mask, that it was recorded with."""
    drops = unit.training and unit.dropout.p > 0
    return drops and torch.cuda.is_current_stream_capturing()


def has_fused_form(unit: Any) -> bool:
    """Whether the kernels can stand for this kind of unit: linked, normalised, dense at the end."""
    return (
        unit.is_standard_kind
        and all(groups & (groups - 1) == 0 for groups in unit.groups)
        and unit.groups[-1] == 1
        and max(linear.in_features for linear in unit.maps) <= WIDEST_ROW
    )


@functools.cache
def _kernels_run(device: torch.device) -> bool:
    """Try the kernels once: Triton needs a C compiler and a GPU that isn't too old."""
    dtypes = DTYPES if torch.cuda.is_bf16_supported() else DTYPES[1:]
    try:
        for dtype in dtypes:
            row, ones = torch.zeros(1, 8, device=device, dtype=dtype), torch.ones(16, device=device)
            mix_norm_kernels.mix_norm_activate(row, row, ones, ones, 1, 1e-5, "tanh", 0.0, 0, False)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        warnings.warn(f"DeFINE units run unfused on {device}: {reason}", stacklevel=2)
        return False
    return True


def fused_forward(unit: Any, inputs: Tensor) -> Tensor:
    """`unit(inputs)`: (..., n) to (..., m), in autocast's dtype where that is on."""
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else inputs.dtype
    dropout = unit.dropout.p if unit.training else 0.0
    # From the generator of the CPU, so that no value has to come back from the GPU.
    seed = int(torch.randint(2**31, ()).item()) if dropout else 0
    eps = unit.norms[0].eps
    weights = [linear.kernel.to(dtype) for linear in unit.maps]
    norms = [parameter for norm in unit.norms for parameter in (norm.weight, norm.bias)]
    rows = inputs.reshape(-1, unit.input_dim).to(dtype).contiguous()
    bias = unit.maps[-1].bias.to(dtype)
    settings = (unit.mixed_groups, eps, unit.activation, dropout, seed)
    with torch.autocast("cuda", enabled=False):
        outputs = _FusedUnit.apply(settings, rows, bias, *weights, *norms)
    return outputs.view(*inputs.shape[:-1], unit.output_dim)


class _FusedUnit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, settings: tuple[Any, ...], inputs: Tensor, bias: Tensor, *parameters: Tensor
    ) -> Tensor:
        groups, eps, activation, dropout, seed = settings
        maps, norms = parameters[: len(groups) + 1], parameters[len(groups) + 1 :]
        hidden, saved = _map(inputs, maps[0]), []
        for index, (kernel, mixed_groups) in enumerate(zip(maps[1:], groups, strict=True)):
            gain, shift = norms[2 * index : 2 * index + 2]
            is_last = index == len(groups) - 1
            mixed, means, roots = mix_norm_kernels.mix_norm_activate(
                inputs,
                hidden,
                gain,
                shift,
                mixed_groups,
                eps,
                activation,
                dropout,
                seed + index,
                appends_one=is_last,
            )
            saved += [hidden, mixed, means, roots]
            if is_last:
                hidden = torch.addmm(bias, mixed[:, : kernel.shape[1]], kernel[0])
            else:
                hidden = _map(mixed, kernel)
        ctx.save_for_backward(inputs, *parameters, *saved)
        ctx.settings = settings
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        groups, _, activation, dropout, seed = ctx.settings
        count = len(groups)
        inputs, *rest = ctx.saved_tensors
        maps, norms = rest[: count + 1], rest[count + 1 : 3 * count + 1]
        saved = rest[3 * count + 1 :]
        grad, grad_inputs = grad.contiguous(), None
        norm_gradients = mix_norm_kernels.NormGradients(norms[::2], inputs.shape[0])
        grads_out = [grad]
        for index in reversed(range(count)):
            hidden, _, means, roots = saved[4 * index : 4 * index + 4]
            gain, shift = norms[2 * index : 2 * index + 2]
            grad_mixed = _map(grad, maps[index + 1].transpose(1, 2))
            grad_inputs, grad = mix_norm_kernels.mix_norm_activate_backward(
                grad_mixed,
                inputs,
                hidden,
                gain,
                shift,
                means,
                roots,
                groups[index],
                activation,
                dropout,
                seed + index,
                grad_inputs,
                norm_gradients,
                index,
            )
            grads_out.insert(0, grad)
        if ctx.needs_input_grad[1]:
            _add_map(grad_inputs, grad, maps[0].transpose(1, 2))
        rows_in = [inputs, *saved[1::4]]
        grad_maps = _map_gradients(rows_in, grads_out, maps)
        # Reduce's input had a constant one at its end, whose weight is the bias.
        width = maps[-1].shape[1]
        grad_bias = grad_maps[-1][0, width]
        grad_maps[-1] = grad_maps[-1][:, :width]
        return None, grad_inputs, grad_bias, *grad_maps, *norm_gradients.total()


def _by_group(rows: Tensor, groups: int) -> Tensor:
    """(rows, width) seen as (groups, rows, width / groups), without a copy."""
    return rows.view(rows.shape[0], groups, -1).transpose(0, 1)


def _map(rows: Tensor, kernel: Tensor) -> Tensor:
    """Each group's chunk times its matrix; the products are written where they belong.

    Shapes: rows (rows, in), kernel (groups, in / groups, out / groups), result (rows, out).
    """
    groups, width_in, width_out = kernel.shape
    if groups == 1:
        return rows @ kernel[0]
    is_short = rows.dtype != torch.float32
    if is_short and width_out % ALIGNED and groups == 2:
        return rows @ torch.block_diag(*kernel)
    result = rows.new_empty(rows.shape[0], groups * width_out)
    chunks = _by_group(rows, groups)
    if is_short and width_in % ALIGNED and not width_out % ALIGNED and not rows.shape[1] % ALIGNED:
        chunks, kernel = _aligned_chunks(rows, kernel)
    torch.bmm(chunks, kernel, out=_by_group(result, groups))
    return result


def _aligned_chunks(rows: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Wider chunks that begin at aligned places, and matrices that meet the excess with zeros.

    An infinite feature, times a neighbour's zeros, gives NaN there too, which changes no outcome:
    the norm that follows in either direction spreads it over that token's whole vector anyway.

    Shapes: rows (rows, in), kernel (groups, in / groups, out / groups), in a multiple of 8; the
    results (groups, rows, wide) and (groups, wide, out / groups), for a product without copies.
    """
    groups, width_in, width_out = kernel.shape
    step = width_in // ALIGNED * ALIGNED
    wide = rows.shape[1] - (groups - 1) * step
    chunks = rows.as_strided((groups, rows.shape[0], wide), (step, rows.shape[1], 1))
    padded = kernel.new_zeros(groups, wide, width_out)
    # Group i begins i * (width_in - step) lines later than its aligned chunk.
    strides = (padded.stride(0) + (width_in - step) * width_out, width_out, 1)
    padded.as_strided(kernel.shape, strides).copy_(kernel)
    return chunks, padded


def _add_map(result: Tensor, rows: Tensor, kernel: Tensor) -> None:
    """Add `_map(rows, kernel)` to `result` in place."""
    groups = kernel.shape[0]
    _by_group(result, groups).baddbmm_(_by_group(rows, groups), kernel)


def _map_gradients(
    rows_in: list[Tensor], grads_out: list[Tensor], maps: list[Tensor]
) -> list[Tensor]:
    """Gradient of each map's matrices; Reduce's with one more line, for its bias.

    Shapes: of each map rows_in (rows, in or more), grads_out (rows, out), maps and result
    (groups, in / groups, out / groups).
    """
    if rows_in[0].dtype != torch.float32 and not _suits_library(maps):
        shapes = _map_shapes(rows_in, maps)
        tiling = choose_tiling(shapes, _shared_memory(rows_in[0].device))
        if tiling is not None:
            return weight_gradient_kernels.weight_gradients(rows_in, grads_out, shapes, tiling)
    return [
        _map_gradient(rows, grad, kernel.shape[0])
        for rows, grad, kernel in zip(rows_in, grads_out, maps, strict=True)
    ]


def _map_shapes(rows_in: list[Tensor], maps: list[Tensor]) -> list[MapShape]:
    shapes = []
    for rows, kernel in zip(rows_in, maps, strict=True):
        groups, chunk_in, chunk_out = kernel.shape
        bias = 1 if kernel is maps[-1] else 0
        width_in = groups * chunk_in + bias
        shapes.append(MapShape(width_in, groups * chunk_out, groups, rows.shape[1]))
    return shapes


@functools.cache
def _shared_memory(device: torch.device) -> int:
    """Bytes that one program may take; what any card has where torch doesn't say."""
    properties = torch.cuda.get_device_properties(device)
    return getattr(properties, "shared_memory_per_block_optin", 48 * 1024)


def _suits_library(maps: list[Tensor]) -> bool:
    """Whether the gradients are large enough to fill a GPU one by one, and aligned."""
    widths = [width for kernel in maps for width in kernel.shape[1:]]
    return all(width % ALIGNED == 0 for width in widths) and (
        sum(kernel.numel() for kernel in maps) > LARGEST_SPLIT_GRADIENTS
    )


def _map_gradient(rows: Tensor, grad: Tensor, groups: int) -> Tensor:
    """Gradient of a map's matrices, (groups, in / groups, out / groups)."""
    width_in, width_out = rows.shape[1] // groups, grad.shape[1] // groups
    if groups == 1 or rows.shape[1] * grad.shape[1] <= LARGEST_DENSE_PRODUCT:
        # Few small matrices over many rows leave most of a GPU idle; one product of everything
        # with everything doesn't, and its diagonal blocks are the wanted ones.
        blocks = (rows.T @ grad).view(groups, width_in, groups, width_out)
        return blocks.diagonal(dim1=0, dim2=2).movedim(-1, 0).contiguous()
    return torch.bmm(_by_group(rows, groups).transpose(1, 2), _by_group(grad, groups))
