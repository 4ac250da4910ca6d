"""Parts of larger tensors: what this rank has of one, and where it lies in the whole.

A checkpoint that knows this can be restored by another number of ranks. DTensor and ShardedTensor (FSDP's
SHARDED_STATE_DICT) say it themselves; for others checkpoint.shard does.
"""

# What the launchers can cut anew: the size of an element must be known.
ELEMENTS = frozenset(
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int64 int32 int16 int8 uint8 bool complex64 complex128".split()
)


class Shard:
    """A part of a larger tensor. offsets: where it begins in each dimension; split: the dimension the ranks share it along."""

    __slots__ = ("tensor", "global_shape", "offsets", "split")

    def __init__(self, tensor, global_shape, offsets, split):
        self.tensor, self.global_shape, self.offsets, self.split = tensor, tuple(global_shape), tuple(offsets), split

    def __repr__(self):
        return "Shard(%s at %s of %s)" % (list(self.tensor.shape), list(self.offsets), list(self.global_shape))


def shard(tensor, global_shape, offsets, split=None):
    """This tensor as a part of one of global_shape, at offsets, for checkpoint.save."""
    shape, whole, at = tuple(tensor.shape), tuple(int(n) for n in global_shape), tuple(int(n) for n in offsets)
    if not whole or not len(shape) == len(whole) == len(at):
        raise ValueError("a part of shape %s at %s of a tensor of shape %s: the dimensions differ, or there are none" % (shape, at, whole))
    if any(a < 0 or a + n > w for n, w, a in zip(shape, whole, at)):
        raise ValueError("a part of shape %s at %s does not lie within %s" % (shape, at, whole))
    cut = [d for d in range(len(whole)) if shape[d] != whole[d]]
    if split is None:
        if len(cut) > 1:
            raise ValueError("a part of shape %s of %s: say split=, the dimension that ranks share it along" % (shape, whole))
        split = cut[0] if cut else 0
    if not 0 <= split < len(whole):
        raise ValueError("split=%s is no dimension of %s" % (split, whole))
    return Shard(tensor, whole, at, split)


def known(value):
    """Whether a value is, or says itself that it is, a part of a larger tensor."""
    return isinstance(value, Shard) or type(value).__name__ in ("DTensor", "ShardedTensor") and type(value).__module__.startswith("torch.")


def part(value):
    """(the tensor here, Shard or None where it is the whole) of a value that is known. TypeError says what can't be kept."""
    if isinstance(value, Shard):
        return value.tensor, value
    found = _dtensor(value) if type(value).__name__ == "DTensor" else _sharded(value)
    return (found.tensor, found) if isinstance(found, Shard) else (found, None)


def _dtensor(value):
    cut = [(axis, p) for axis, p in enumerate(value.placements) if not p.is_replicate()]
    local = value.to_local()
    if not cut:
        return local
    if len(cut) > 1 or type(cut[0][1]).__name__ != "Shard":
        raise TypeError("a DTensor placed as %s: only one that is cut along one dimension can be kept" % (value.placements,))
    axis, dim = cut[0][0], cut[0][1].dim
    each = -(-value.shape[dim] // value.device_mesh.size(axis))
    at = [0] * len(value.shape)
    at[dim] = min(value.device_mesh.get_coordinate()[axis] * each, value.shape[dim])
    return shard(local, value.shape, at, dim)


def _sharded(value):
    parts, whole = value.local_shards(), tuple(value.size())
    dim = getattr(value.sharding_spec(), "dim", None)
    if len(parts) > 1:
        raise TypeError("a ShardedTensor of which this rank has %d parts: one can be kept" % len(parts))
    if parts:
        return shard(parts[0].tensor, whole, parts[0].metadata.shard_offsets, dim)
    import torch

    dim = dim or 0
    shape, at = list(whole), [0] * len(whole)
    shape[dim], at[dim] = 0, whole[dim]
    return shard(torch.empty(shape, dtype=value.dtype), whole, at, dim)
