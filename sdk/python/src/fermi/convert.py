"""Checkpoints from and to what others read: files of torch.save, safetensors, folders of PyTorch DCP.

    python3 -m fermi.convert SLOTS TARGET [--only model]          a folder with the slots of all ranks → one file or folder
    python3 -m fermi.convert SLOT... TARGET                       the same, slot by slot
    python3 -m fermi.convert SOURCE SLOTS/ --step 100             and back, as the slot of a rank that is alone; or SLOT, a file

`fermi train checkpoints NAME --export SLOTS` makes such a folder, `fermi train run --from SLOTS/` begins from one: rank-0.slot and
so on. A name that ends in .safetensors is one, any other folder (or name that ends in /) is DCP's, a slot is known by its first
bytes, or by --step where it is written; all else is torch.save's. Files are read with weights_only=True: they can hold no
code. The metadata of a DCP folder is a pickle, which PyTorch loads: read those that you trust only.
"""

import argparse
import json
import os
import pickle
import re
import struct
import sys
import tempfile

from . import _shard, _slots, _tree

_MOST_HEADER = 100 << 20  # bytes of JSON in a safetensors file, as its own library allows
_SAFE = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_SAFE_NAMES = {torch: safe for safe, torch in _SAFE.items()}


def read(path):
    """The state of a file or folder."""
    if os.path.isdir(path):
        return _read_slots(path) if _ranks(path) else _read_dcp(path)
    with open(path, "rb") as file:
        head = file.read(len(_slots.MAGIC))
    if head == _slots.MAGIC:
        return _read_slot(path)
    if path.endswith(".safetensors"):
        return _read_safetensors(path)
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def write(state, path, step=None):
    """Writes a state, whole or not at all: under another name first. With a step: a slot."""
    if path.endswith("/") or os.path.isdir(path):
        if step is None:
            _write_dcp(state, path)
            return
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise ValueError("%s: slots go into a new folder, or an empty one" % path)
        path = os.path.join(path, "rank-0.slot")
    whole = os.path.abspath(path)
    handle, temp = tempfile.mkstemp(prefix=".fermi-", dir=os.path.dirname(whole))
    os.close(handle)
    try:
        if step is not None:
            _write_slot(state, temp, step)
        elif path.endswith(".safetensors"):
            _write_safetensors(state, temp)
        else:
            import torch

            with open(temp, "wb") as file:
                torch.save(_no_parts(state, "state"), file)
        with open(temp, "rb") as file:
            os.fsync(file.fileno())
        os.rename(temp, whole)
    except BaseException:
        os.unlink(temp)
        raise


def merge(states):
    """One state of those of all ranks: parts of larger tensors are put together, of the rest it is that of the first rank that has it."""
    return _merged(states[0], states[1:], "state")


def _merged(first, rest, path):
    if isinstance(first, dict):
        all_ranks = [first] + [r for r in rest if isinstance(r, dict)]
        keys = list(dict.fromkeys(k for r in all_ranks for k in r))  # a rank of a pipeline has layers that others have not
        have = {k: [r[k] for r in all_ranks if k in r] for k in keys}
        out = type(first)((k, _merged(have[k][0], have[k][1:], "%s[%r]" % (path, k))) for k in keys)
        if hasattr(first, "_metadata"):
            out._metadata = first._metadata
        return out
    if type(first) in (list, tuple):
        return type(first)(_merged(v, [r[i] for r in rest if type(r) is type(first) and i < len(r)], "%s[%d]" % (path, i)) for i, v in enumerate(first))
    if isinstance(first, _shard.Shard):
        return _assembled([first] + [r for r in rest if isinstance(r, _shard.Shard)], path)
    return first


def _assembled(parts, path):
    import torch

    whole = torch.empty(parts[0].global_shape, dtype=parts[0].tensor.dtype)
    there = torch.zeros(parts[0].global_shape, dtype=torch.bool)
    for p in parts:
        if p.global_shape != parts[0].global_shape or p.tensor.dtype != whole.dtype:
            raise ValueError("%s: the ranks disagree about its shape or type" % path)
        box = tuple(slice(a, a + n) for a, n in zip(p.offsets, p.tensor.shape))
        if bool((there[box] & (whole[box] != p.tensor)).any()):
            raise ValueError("%s: the ranks disagree about its elements" % path)
        whole[box], there[box] = p.tensor, True
    if not bool(there.all()):
        raise ValueError("%s: %d of %d elements are with none of the ranks given" % (path, int((~there).sum()), there.numel()))
    return whole


def _no_parts(value, path):
    """The value, in which no part of a larger tensor may be: other formats would take it for the whole."""
    if _shard.known(value):
        raise TypeError("%s: a part of a larger tensor; give the slots of all ranks" % path)
    kids = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, kid in kids:
        _no_parts(kid, "%s[%r]" % (path, key))
    return value


def _ranks(path):
    """The slots in a folder, by rank."""
    found = ((re.fullmatch(r"rank-(0|[1-9][0-9]*)\.slot", name), name) for name in os.listdir(path))
    return {int(match[1]): os.path.join(path, name) for match, name in found if match}


def _read_slots(path):
    """The state of a folder with the slots of all ranks of one step."""
    ranks = _ranks(path)
    first, states = None, []
    for rank in sorted(ranks):
        header, state = _open_slot(ranks[rank])
        first = first or header
        if header.rank != rank or (header.world, header.step, header.generation) != (first.world, first.step, first.generation):
            raise ValueError("%s: rank %d of %d at step %d, which does not belong here" % (ranks[rank], header.rank, header.world, header.step))
        states.append(state)
    missing = sorted(set(range(first.world)) - set(ranks))
    if missing:
        raise ValueError("%s: rank-%d.slot is missing; there were %d ranks" % (path, missing[0], first.world))
    return merge(states)


def _read_slot(path):
    return _open_slot(path)[1]


def _open_slot(path):
    slot = _slots.Slot(path)
    try:
        header = slot.verify()
        if header is None:
            raise ValueError("%s: the slot is not whole" % path)
        tree, data = slot.read()
        with data:
            return header, _tree.decode(tree, data)
    finally:
        slot.close()


def _write_slot(state, path, step):
    plan = _tree.Plan(state)
    tree = plan.encoded()
    slot = _slots.Slot(path)
    try:
        slot.reserve(plan.length, len(tree))
        slot.put(plan)
        slot.commit(0, 1, 0, step, plan.length, tree)
    finally:
        slot.close()


def _flat(value, path, out):
    import torch

    if isinstance(value, dict):
        for key, kid in value.items():
            _flat(kid, "%s.%s" % (path, key) if path else str(key), out)
        return out
    if _shard.known(value):
        raise TypeError("%s: a part of a larger tensor; give the slots of all ranks" % path)
    if not isinstance(value, torch.Tensor):
        raise TypeError("%s: safetensors holds tensors only, this is a %s; --only KEY takes a part of the state" % (path or "state", type(value).__name__))
    name = str(value.dtype)[len("torch.") :]
    if name not in _SAFE_NAMES:
        raise TypeError("%s: safetensors has no %s" % (path, name))
    if path in out:
        raise ValueError("%s: two tensors would have this name" % path)
    out[path] = value.detach().cpu().contiguous()
    return out


def _write_safetensors(state, path):
    import torch

    tensors = _flat(state, "", {})
    # By size of the elements, then by name: all are aligned, as the format's own library has it.
    names = sorted(tensors, key=lambda n: (-tensors[n].element_size(), n))
    header, at = {}, 0
    for name in names:
        t = tensors[name]
        end = at + t.numel() * t.element_size()
        header[name] = {"dtype": _SAFE_NAMES[str(t.dtype)[len("torch.") :]], "shape": list(t.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            if tensors[name].numel():
                file.write(memoryview(tensors[name].reshape(-1).view(torch.uint8).numpy()))


def _read_safetensors(path):
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length > min(_MOST_HEADER, size - 8):
            raise ValueError("%s: this is no safetensors file" % path)
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        out = {}
        for name, entry in header.items():
            out[name] = _safe_tensor(file, name, entry, 8 + length, size)
        return out


def _safe_tensor(file, name, entry, base, size):
    dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in _SAFE:
        raise ValueError("%s: unknown element type %r" % (name, dtype))
    if not 0 <= begin <= end <= size - base or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("%s lies outside of the file" % name)
    file.seek(base + begin)
    with memoryview(bytearray(file.read(end - begin))) as view:
        return _tree.tensor(view, _SAFE[dtype], shape)


def _dcp():
    try:
        from torch.distributed.checkpoint import format_utils
    except ImportError as err:
        raise RuntimeError("this PyTorch has no torch.distributed.checkpoint.format_utils: 2.3 or later is needed") from err
    return format_utils


def _read_dcp(path):
    import torch

    with tempfile.TemporaryDirectory(prefix=".fermi-", dir=os.path.dirname(os.path.abspath(path))) as folder:
        name = os.path.join(folder, "state")
        _dcp().dcp_to_torch_save(path, name)
        return torch.load(name, map_location="cpu", weights_only=True)


def _write_dcp(state, path):
    import torch

    with tempfile.TemporaryDirectory(prefix=".fermi-", dir=os.path.dirname(os.path.abspath(path.rstrip("/")))) as folder:
        name = os.path.join(folder, "state")
        torch.save(_no_parts(state, "state"), name)
        _dcp().torch_save_to_dcp(name, path)


def main(argv):
    parser = argparse.ArgumentParser(prog="python3 -m fermi.convert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="+", help="a file or folder, or the slots of all ranks")
    parser.add_argument("target")
    parser.add_argument("--only", metavar="KEY", help="this part of the state")
    parser.add_argument("--step", type=int, help="write a slot, of this step; into a folder where the target ends in /")
    args = parser.parse_args(argv)
    try:
        state = merge([read(name) for name in args.source])
        if args.only is not None:
            state = state[args.only]
        write(state, args.target, args.step)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, EOFError, pickle.UnpicklingError) as err:
        print("fermi.convert: %s: %s" % (type(err).__name__, err), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
