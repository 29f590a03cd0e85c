"""A slow DeFINE unit, written from the specification: one token, one group, one feature at a time.

It shares no code with the package: widths, groups, mixing, norm and activation are spelled out
again, and only the weights are taken from the unit under test.
"""

import math

import torch


def reference_groups(schedule, maps, max_groups):
    if schedule == "constant":
        return [max_groups] * maps
    if schedule == "halving":
        return [max(math.floor(max_groups / 2 ** (index - 1)), 1) for index in range(1, maps + 1)]
    terms, groups = [], 1
    for _ in range(maps):
        terms.append(groups)
        groups = 1 if groups == max_groups else groups * 2
    return terms[::-1]


def reference_sizes(n, m, k, depth, max_groups, schedule, mix, widths, reduce):
    """(inputs, outputs, groups, whether the unit's input is linked) of each map."""
    group_maps = depth - 1 if widths == "printed" else depth
    outputs = []
    for index in range(1, group_maps + 1):
        place = (index - 1) / group_maps if widths == "printed" else index / group_maps
        width = k if mix == "residual" else n + (k - n) * place
        outputs.append(max_groups * math.floor(width / max_groups + 1e-9))
    groups = reference_groups(schedule, depth, max_groups)
    if widths == "printed":
        outputs.append(m if reduce else k)
    elif reduce:
        outputs.append(m)
        groups.append(1)
    has_link = mix in ("split", "concat")
    linked = [False] + [has_link] * (len(outputs) - 1)
    if widths == "literal" and reduce:
        linked[-1] = False
    inputs = [n] + [
        outputs[index - 1] + (n if linked[index] else 0) for index in range(1, len(outputs))
    ]
    return list(zip(inputs, outputs, groups, linked, strict=True))


ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "tanh": lambda x: 1 - 2 / (1 + torch.exp(2 * x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "relu": lambda x: x if x > 0 else x * 0,
    "none": lambda x: x,
}


def reference_unit(unit, token, sizes, *, mix, norm, activation, shuffle):
    """The unit on one token's vector (n,), differentiable in the vector and in all weights."""
    vector = list(token)
    hidden, previous_groups = None, None
    for index, (width_in, width_out, groups, linked) in enumerate(sizes):
        if index == 0:
            mixed = vector
        else:
            if shuffle:
                size = len(hidden) // previous_groups
                hidden = [
                    hidden[group * size + place]
                    for place in range(size)
                    for group in range(previous_groups)
                ]
            mixed = hidden
            if linked and mix == "concat":
                mixed = vector + hidden
            elif linked:
                mixed = []
                for group in range(groups):
                    for part in (vector, hidden):
                        size = len(part) // groups
                        mixed = mixed + part[group * size : (group + 1) * size]
            before = mixed
            if norm == "layer":
                layer = unit.norms[index - 1]
                mean = sum(before) / len(before)
                variance = sum((x - mean) ** 2 for x in before) / len(before)
                root = torch.sqrt(variance + layer.eps)
                before = [
                    (x - mean) / root * layer.weight[place] + layer.bias[place]
                    for place, x in enumerate(before)
                ]
            mixed = [ACTIVATIONS[activation](x) for x in before]
        assert len(mixed) == width_in
        output = []
        for group in range(groups):
            rows, columns = width_in // groups, width_out // groups
            for column in range(columns):
                total = 0
                for row in range(rows):
                    weight = unit.maps[index].kernel[group, row, column]
                    total = total + mixed[group * rows + row] * weight
                output.append(total)
        bias = unit.maps[index].bias
        if bias is not None:
            output = [x + bias[place] for place, x in enumerate(output)]
        if mix == "residual":
            source = vector if index == 0 else hidden
            if len(source) == len(output):
                output = [x + y for x, y in zip(output, source, strict=True)]
        hidden, previous_groups = output, groups
    return torch.stack(hidden)
