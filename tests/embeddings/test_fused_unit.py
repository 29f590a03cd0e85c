"""The fused unit on a GPU against the same unit from torch's operations, in double precision."""

import copy

import pytest
import torch

from onmt_define import DefineEmbedding, DefineUnit
from onmt_define.embeddings import define_unit, fused_unit
from onmt_define.embeddings.fused_unit import can_fuse
from onmt_define.embeddings.weight_gradient_tiles import LARGE_TILES, SMALL_TILES, MapShape

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def full_precision_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def make_unit(*sizes, **options):
    torch.manual_seed(0)
    unit = DefineUnit(*sizes, **options).cuda()
    for norm in [norm for norm in unit.norms if isinstance(norm, torch.nn.LayerNorm)]:
        torch.nn.init.normal_(norm.weight, 1.0, 0.2)
        torch.nn.init.normal_(norm.bias, 0.0, 0.2)
    return unit


def run(unit, vectors, direction):
    unit.zero_grad()
    vectors = vectors.detach().clone().requires_grad_()
    output = unit(vectors)
    output.backward(direction.to(output.dtype))
    gradients = [parameter.grad for parameter in unit.parameters()]
    return [tensor.double() for tensor in (output, vectors.grad, *gradients)]


def relative_errors(ours, expected):
    return [((a - b).norm() / b.norm()).item() for a, b in zip(ours, expected, strict=True)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((128, 512, 1024, 3, 8), {}),
        ((384, 384, 1024, 7, 8), {}),
        ((384, 384, 4096, 3, 8), {}),
        ((512, 512, 1024, 11, 16), {}),
        ((24, 10, 100, 5, 4), {}),
        ((5, 7, 12, 3, 1), {}),
        ((64, 33, 200, 4, 8), {"mix": "concat", "schedule": "halving"}),
        ((64, 40, 200, 4, 8), {"activation": "gelu"}),
        ((64, 40, 200, 4, 8), {"activation": "silu"}),
        ((64, 40, 200, 4, 8), {"activation": "relu"}),
        ((64, 40, 200, 4, 8), {"activation": "none", "reduce": False}),
    ],
)
def test_outputs_and_gradients_equal_double_precision(dtype, sizes, options, monkeypatch):
    unit = make_unit(*sizes, **options).to(dtype)
    vectors = torch.randn(3, 67, sizes[0], device="cuda", dtype=dtype)
    direction = torch.randn(3, 67, unit.output_dim, device="cuda")
    assert can_fuse(unit, vectors) == (unit.groups[-1] == 1)
    exact = run(copy.deepcopy(unit).double(), vectors.double(), direction)
    errors = relative_errors(run(unit, vectors, direction), exact)
    if options.get("activation") != "relu":
        assert max(errors) < TOLERANCE[dtype]
        return
    # A value that rounds to the other side of zero changes relu's slope at once, with torch's
    # own operations too.
    assert errors[0] < TOLERANCE[dtype]
    monkeypatch.setattr(define_unit, "can_fuse", lambda *_: False)
    torchs_errors = relative_errors(run(unit, vectors, direction), exact)
    assert max(errors) < max(2 * max(torchs_errors), TOLERANCE[dtype]), torchs_errors


SHORT = [torch.float16, torch.bfloat16]


def grouped_product(rows, kernel):
    """Each group's chunk times its matrix, in double precision."""
    chunks = rows.double().view(rows.shape[0], kernel.shape[0], -1)
    return torch.einsum("rgi,gio->rgo", chunks, kernel.double()).flatten(1)


def grouped_gradient(shape, rows, grad):
    rows = rows[:, : shape.width_in].double().view(rows.shape[0], shape.groups, -1)
    return torch.einsum("rgi,rgo->gio", rows, grad.double().view(*rows.shape[:2], -1))


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize(
    ("groups", "chunk_in", "chunk_out"),
    [(2, 244, 384), (8, 122, 88), (4, 202, 272), (2, 384, 244), (2, 456, 596), (4, 11, 8)],
)
def test_products_of_unaligned_groups(dtype, groups, chunk_in, chunk_out):
    torch.manual_seed(0)
    rows = torch.randn(333, groups * chunk_in, device="cuda", dtype=dtype)
    kernel = torch.randn(groups, chunk_in, chunk_out, device="cuda", dtype=dtype)
    for matrices in (kernel, kernel.transpose(1, 2).contiguous().transpose(1, 2)):
        errors = relative_errors(
            [fused_unit._map(rows, matrices)], [grouped_product(rows, matrices)]
        )
        assert max(errors) < TOLERANCE[dtype]


# Narrow groups that share a tile, wide ones, and rows that go on after their features.
ALIGNED_ROWS = [
    MapShape(128, 128, 4, 128),
    MapShape(976, 704, 8, 976),
    MapShape(1192, 912, 2, 1192),
    MapShape(705, 512, 1, 712),
]
UNALIGNED_ROWS = [MapShape(10, 6, 2, 10), MapShape(135, 201, 3, 135), MapShape(24, 7, 1, 24)]


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("tiling", [LARGE_TILES, SMALL_TILES])
@pytest.mark.parametrize("shapes", [ALIGNED_ROWS, UNALIGNED_ROWS])
@pytest.mark.parametrize("count", [1, 100, 5000])
def test_weight_gradients_of_many_maps_at_once(dtype, tiling, shapes, count):
    from onmt_define.embeddings.weight_gradient_kernels import weight_gradients

    torch.manual_seed(0)
    rows_in = [torch.randn(count, s.row_width, device="cuda", dtype=dtype) for s in shapes]
    rows_out = [torch.randn(count, s.width_out, device="cuda", dtype=dtype) for s in shapes]
    # A view that begins at no multiple of 16 bytes.
    width = shapes[0].row_width
    view = torch.randn(count * width + 1, device="cuda", dtype=dtype)[1:].view(count, width)
    rows_in[0] = view
    found = weight_gradients(rows_in, rows_out, shapes, tiling)
    expected = [grouped_gradient(*each) for each in zip(shapes, rows_in, rows_out, strict=True)]
    assert [gradient.shape for gradient in found] == [shape.gradient for shape in shapes]
    assert max(relative_errors(found, expected)) < TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("sizes", "splits_tokens"),
    [
        ((128, 512, 1024, 3, 8), True),
        ((384, 384, 1024, 7, 8), True),
        ((384, 384, 4096, 3, 8), False),
    ],
)
def test_large_aligned_gradients_are_left_to_cublas(sizes, splits_tokens, monkeypatch):
    unit, used = make_unit(*sizes).bfloat16(), []
    kernels = fused_unit.weight_gradient_kernels
    weight_gradients = kernels.weight_gradients

    def remember(*arguments):
        used.append(True)
        return weight_gradients(*arguments)

    monkeypatch.setattr(kernels, "weight_gradients", remember)
    vectors = torch.randn(300, sizes[0], device="cuda", dtype=torch.bfloat16)
    direction = torch.randn(300, sizes[1], device="cuda")
    ours = run(unit, vectors, direction)
    assert bool(used) == splits_tokens
    # Whatever the rule says, both ways give the same.
    monkeypatch.setattr(fused_unit, "_suits_library", lambda _: splits_tokens)
    assert max(relative_errors(run(unit, vectors, direction), ours)) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize(
    "options",
    [
        {"mix": "none"},
        {"mix": "residual"},
        {"norm": "none"},
        {"widths": "literal"},
        {"shuffle": True},
        {"schedule": "constant"},
    ],
)
def test_other_variants_run_unfused(options):
    unit = make_unit(64, 40, 200, 4, 8, **options)
    vectors = torch.randn(5, 64, device="cuda")
    assert not can_fuse(unit, vectors)
    torch.testing.assert_close(unit(vectors).cpu(), unit.cpu()(vectors.cpu()), rtol=1e-4, atol=1e-4)


def test_no_tokens_give_no_vectors():
    assert make_unit(64, 40, 200, 3)(torch.zeros(0, 64, device="cuda")).shape == (0, 40)


def test_autocast_gives_its_type_and_gradients_in_the_weights_own():
    unit, vectors = make_unit(128, 512, 1024, 3), torch.randn(50, 128, device="cuda")
    expected = unit(vectors)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output = unit(vectors)
    assert output.dtype == torch.bfloat16
    assert ((output - expected).norm() / expected.norm()) < 0.02
    output.sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in unit.parameters())


def test_dropout_drops_the_share_it_should_and_scales_the_rest():
    unit = make_unit(64, 40, 64, 2, activation="none", dropout=0.25)
    torch.nn.init.ones_(unit.norms[0].bias)
    torch.nn.init.zeros_(unit.norms[0].weight)
    kernel = unit.maps[1].kernel
    with torch.no_grad():
        kernel.zero_()
        kernel[0, :40].copy_(torch.eye(40))
    kept = unit(torch.randn(2000, 64, device="cuda"))
    values = kept.unique()
    torch.testing.assert_close(values.cpu(), torch.tensor([0.0, 1 / 0.75]))
    assert 0.24 < (kept == 0).float().mean() < 0.26
    assert not torch.equal(kept, unit(torch.randn(2000, 64, device="cuda")))


def test_dropout_masks_are_the_same_in_both_directions():
    unit = make_unit(64, 40, 200, 3, dropout=0.5)
    vectors = torch.randn(300, 64, device="cuda", requires_grad=True)
    step = 1e-3 * torch.randn_like(vectors)

    def total(vectors):
        torch.manual_seed(3)
        return unit(vectors).sum()

    (gradient,) = torch.autograd.grad(total(vectors), vectors)
    with torch.no_grad():
        difference = (total(vectors + step) - total(vectors - step)) / 2
    torch.testing.assert_close((gradient * step).sum(), difference, rtol=0.02, atol=1e-3)


def test_compiled_units_leave_the_fusing_to_the_compiler():
    unit, vectors = make_unit(128, 64, 256, 3), torch.randn(50, 128, device="cuda")
    compiled = torch.compile(unit, fullgraph=True)
    torch.testing.assert_close(compiled(vectors), unit(vectors), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("vocabulary", [50, 5000])
def test_every_way_of_computing_a_batch_gives_the_same(vocabulary, monkeypatch):
    torch.manual_seed(0)
    layer = DefineEmbedding(vocabulary, 40, 64, 200, 3, padding_idx=1).cuda()
    tokens = torch.randint(0, vocabulary, (4, 100), device="cuda")
    direction = torch.randn(4, 100, 40, device="cuda")
    results = []
    for compute in (layer.compute, layer._compute_each, layer._compute_vocabulary):
        layer.zero_grad()
        compute(tokens).backward(direction)
        results.append([parameter.grad.clone() for parameter in layer.parameters()])
    monkeypatch.setattr(define_unit, "can_fuse", lambda *_: False)
    layer.zero_grad()
    layer._compute_each(tokens).backward(direction)
    expected = [parameter.grad for parameter in layer.parameters()]
    for gradients in results:
        for ours, theirs in zip(gradients, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def test_kept_tables_on_a_gpu_need_no_waiting():
    layer = DefineEmbedding(5000, 40, 64, 200, 3).cuda().eval()
    tokens = torch.randint(0, 5000, (4, 100), device="cuda")
    with torch.inference_mode():
        expected = layer(tokens)
        torch.cuda.set_sync_debug_mode("error")
        try:
            found = layer(tokens)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found, expected)


def test_training_never_waits_for_the_gpu():
    layer = DefineEmbedding(500, 40, 64, 200, 3, padding_idx=1, cutoffs=[100], dropout=0.1).cuda()
    tokens = torch.randint(0, 500, (4, 300), device="cuda")
    layer(tokens).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        layer(tokens).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_recorded_step_drops_others_each_time():
    unit = make_unit(128, 512, 1024, 3, 8, dropout=0.5).train()
    vectors = torch.randn(64, 128, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        unit(vectors)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        output = unit(vectors)
    graph.replay()
    first = output.clone()
    graph.replay()
    assert not torch.equal(output, first)
