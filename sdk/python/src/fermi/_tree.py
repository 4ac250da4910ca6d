"""A state as a JSON tree and raw bytes, and back.

Nothing is pickled and nothing is unpickled: what a slot holds can hold no code. Tensors, arrays and
bytes become blobs, copied as they are; the rest becomes JSON that says which Python types it was:
lists are arrays, anything else that JSON has no word for is an object with one key. What is not known
here is refused by its path, never guessed.
"""

import collections
import functools
import json
import struct
import sys

from . import _shard

ALIGN = 64  # of a blob: any element type, and whole cache lines
DEPTH = 100
CLONES = 256 << 20  # bytes of a card's memory that a save beside training may take

_DICTS = {dict: "d", collections.OrderedDict: "o", collections.Counter: "c"}
_DICT_TYPES = {name: kind for kind, name in _DICTS.items()}
_SETS = {set: "s", frozenset: "z"}
_SET_TYPES = {name: kind for kind, name in _SETS.items()}


class Plan:
    """A state taken apart: the tree, and the blobs with the place each will have."""

    def __init__(self, state, overlap=None):
        self.blobs = []  # (offset, length, copy), copy(destination memoryview) puts the bytes there
        self.later = {}  # CUDA device → blobs that are copied beside what is computed next
        self._overlap = overlap
        self._pointers = overlap.pointers() if overlap else ()
        self._clones = CLONES if overlap else 0  # bytes that may still be copied on their card first
        self._waits = []
        self._direct = set()  # CUDA devices with copies to wait for
        self.length = 0
        self.devices = set()  # CUDA devices that tensors come from; their copies are only begun
        self._seen = {}  # identity of a tensor → its leaf: a tied weight is stored, and comes back, once
        self.tree = self._node(state, "state", 0)

    def wait(self):
        """Until what was begun is copied."""
        for device in self._direct:
            sys.modules["torch"].cuda.current_stream(device).synchronize()

    def begin(self, view):
        """Starts the copies that may take their time, into the view of the data; finish waits for them."""
        for device, blobs in self.later.items():
            copies = [functools.partial(copy, view[at : at + length]) for at, length, copy in blobs if length]
            self._waits.append(self._overlap.begin(device, copies))

    def finish(self):
        for wait in self._waits:
            wait()

    def encoded(self):
        return json.dumps(self.tree, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()

    def _blob(self, length, copy, blobs=None):
        offset = self.length
        (self.blobs if blobs is None else blobs).append((offset, length, copy))
        self.length = -(-(offset + length) // ALIGN) * ALIGN
        return offset

    def _node(self, value, path, depth):
        kind = type(value)
        if value is None or kind in (bool, str, int):
            return value
        if depth > DEPTH:
            raise ValueError("%s: nested more than %d deep" % (path, DEPTH))
        if kind is float:
            finite = value - value == 0
            return value if finite else {"f": struct.pack("<d", value).hex()}
        if kind is list:
            return [self._node(v, "%s[%d]" % (path, i), depth + 1) for i, v in enumerate(value)]
        if kind is tuple or kind.__name__ == "Size" and isinstance(value, tuple):
            return {"t": [self._node(v, "%s[%d]" % (path, i), depth + 1) for i, v in enumerate(value)]}
        if kind in _DICTS:
            return self._dict(value, kind, path, depth)
        if kind in _SETS:
            return {_SETS[kind]: [self._node(v, path + "{}", depth + 1) for v in sorted(value, key=repr)]}
        if kind in (bytes, bytearray, memoryview):
            view = memoryview(value).cast("B")
            return {"y" if kind is bytes else "a": [self._blob(len(view), _copier(view)), len(view)]}
        return self._foreign(value, path)

    def _dict(self, value, kind, path, depth):
        pairs = [[self._node(k, path + " key", depth + 1), self._node(v, "%s[%r]" % (path, k), depth + 1)] for k, v in value.items()]
        node = {_DICTS[kind]: pairs}
        metadata = getattr(value, "_metadata", None)  # torch puts the versions of modules there
        if metadata is not None:
            node = {"m": [node, self._node(metadata, path + "._metadata", depth + 1)]}
        return node

    def _foreign(self, value, path):
        torch, numpy = module("torch"), module("numpy")
        if torch is not None and _shard.known(value):
            return self._part(torch, value, path)
        if torch is not None and isinstance(value, torch.Tensor):
            return self._tensor(torch, value, path)
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)) and not value.dtype.hasobject:
            flat = numpy.ascontiguousarray(value)
            shape = list(value.shape) if isinstance(value, numpy.ndarray) else None
            view = memoryview(flat.reshape(-1).view(numpy.uint8)) if flat.nbytes else memoryview(b"")
            return {"n": [value.dtype.str, shape, self._blob(flat.nbytes, _copier(view)), flat.nbytes]}
        raise TypeError(
            "%s: cannot keep a %s in a checkpoint; tensors, arrays, bytes, numbers, strings, lists, tuples, dicts and sets can be kept"
            % (path, type(value).__qualname__)
        )

    def _part(self, torch, value, path):
        try:
            tensor, part = _shard.part(value)
        except TypeError as err:
            raise TypeError("%s: %s" % (path, err)) from None
        if part is None:
            return self._tensor(torch, tensor, path)
        tensor = self._strided(torch, tensor, path).contiguous()  # elements row by row
        dtype = _name(tensor.dtype)
        if dtype not in _shard.ELEMENTS:
            raise TypeError("%s: a part of a larger tensor can't be of %s" % (path, dtype))
        where = [list(tensor.shape), list(part.global_shape), list(part.offsets), part.split]
        return self._kept(torch, tensor, lambda at, length: {"h": [dtype] + where + [at, length]}, str(where))

    def _tensor(self, torch, value, path):
        value = self._strided(torch, value, path)
        if not (value.is_contiguous() or _dense(tuple(value.shape), value.stride())):
            value = value.contiguous()
        head = [_name(value.dtype), tuple(value.shape), value.stride()]
        return self._kept(torch, value, lambda at, length: {"x": head + [at, length]})

    def _strided(self, torch, value, path):
        if value.layout != torch.strided or value.is_quantized or value.is_complex() and value.is_conj() or value.is_meta:
            raise TypeError("%s: only dense tensors can be kept in a checkpoint, this one is %s" % (path, value.layout))
        return value.detach() if value.requires_grad else value

    def _kept(self, torch, value, leaf, what=""):
        length = value.numel() * value.element_size()
        identity = (value.data_ptr(), value.dtype, tuple(value.shape), value.stride(), value.device, what)
        if length and identity in self._seen:
            return self._seen[identity]
        value, blobs = self._card(value, length) if value.is_cuda else (value, self.blobs)
        self._seen[identity] = leaf(self._blob(length, _tensor_copier(torch, value), blobs), length)
        return self._seen[identity]

    def _card(self, value, length):
        """A card's tensor, and whether it is copied now or later. What others than the optimizer may change is cloned on
        the card to be copied later, if it is not much."""
        self.devices.add(value.device)
        mine = value.data_ptr() in self._pointers
        if self._overlap is None or not mine and length > self._clones:
            self._direct.add(value.device)
            return value, self.blobs
        if not mine:
            self._clones -= length
            value = value.clone()
        return value, self.later.setdefault(value.device, [])


def module(name):
    """One that the script has imported, or None."""
    return sys.modules.get(name)


def _name(dtype):
    return str(dtype)[len("torch.") :]


def _copier(view):
    def copy(destination):
        destination[:] = view

    return copy


def _tensor_copier(torch, value):
    def copy(destination):
        flat = torch.frombuffer(destination, dtype=torch.uint8).view(value.dtype)
        flat.as_strided(value.shape, value.stride()).copy_(value, non_blocking=True)

    return copy


def _dense(shape, stride):
    """Whether the elements fill one stretch of memory without gap or overlap, in whatever order of dimensions."""
    expected = 1
    for step, size in sorted(zip(stride, shape)):
        if size == 1:
            continue
        if step != expected:
            return False
        expected *= size
    return True


def decode(tree, data, into=None):
    """The state again, from the JSON text and the memoryview of its blobs; every tensor and array is a copy. The
    tensors of into, a state of the same form, are filled in place and come back themselves."""
    root, decoder = json.loads(tree), _Decoder(data)
    if into is not None:
        from . import _match

        _match.load(root, into, decoder)
    return decoder.node(root, 0)


class _Decoder:
    def __init__(self, data):
        self.data = data
        self.tensors = {}

    def node(self, node, depth):
        if depth > DEPTH + 2:
            raise ValueError("nested too deep")
        if isinstance(node, list):
            return [self.node(v, depth + 1) for v in node]
        if not isinstance(node, dict):
            return node
        ((kind, body),) = node.items()
        if kind == "t":
            return tuple(self.node(v, depth + 1) for v in body)
        if kind in _DICT_TYPES:
            return _DICT_TYPES[kind]((self.node(k, depth + 1), self.node(v, depth + 1)) for k, v in body) if kind != "c" else self._counter(body, depth)
        if kind in _SET_TYPES:
            return _SET_TYPES[kind](self.node(v, depth + 1) for v in body)
        if kind == "m":
            value = self.node(body[0], depth + 1)
            value._metadata = self.node(body[1], depth + 1)
            return value
        if kind == "f":
            return struct.unpack("<d", bytes.fromhex(body))[0]
        return self.leaf(kind, body)

    def _counter(self, body, depth):
        return collections.Counter({self.node(k, depth + 1): self.node(v, depth + 1) for k, v in body})

    def leaf(self, kind, body):
        view = self.blob(*body[-2:])
        if kind == "y":
            return bytes(view)
        if kind == "a":
            return bytearray(view)
        if kind == "n":
            import numpy

            dtype, shape = numpy.dtype(body[0]), body[1]
            array = numpy.frombuffer(bytearray(view), dtype=dtype)
            return array.reshape(shape) if shape is not None else array[0]
        if kind in ("x", "h"):
            offset = body[-2]
            if not view or offset not in self.tensors:
                self.tensors[offset] = _tensor(view, *body[:3]) if kind == "x" else _part(view, *body[:5])
            return self.tensors[offset]
        raise ValueError("unknown kind %r" % kind)

    def blob(self, offset, length):
        if not 0 <= offset <= offset + length <= len(self.data):
            raise ValueError("a blob lies outside of the data")
        return self.data[offset : offset + length]


    def copy(self, body, target):
        """Fills a tensor of the shape and type that the leaf has."""
        _fill(target.detach(), self.blob(*body[-2:]), body[2] if len(body) == 5 else _rows(body[1]))


def _tensor(view, dtype, shape, stride):
    import torch

    kind = getattr(torch, dtype)
    if not isinstance(kind, torch.dtype):
        raise ValueError("unknown element type %r" % dtype)
    made = torch.empty_strided(shape, stride, dtype=kind)
    _fill(made, view, stride)
    return made


def _fill(target, view, stride):
    if target.numel() * target.element_size() != len(view):
        raise ValueError("a tensor of %d bytes has %d" % (target.numel() * target.element_size(), len(view)))
    if len(view):
        target.copy_(_over(view, target.dtype, target.shape, stride))


def tensor(view, dtype, shape):
    """A copy of elements that lie row by row."""
    return _tensor(view, dtype, shape, _rows(shape))


def _part(view, dtype, shape, whole, offsets, split):
    return _shard.shard(tensor(view, dtype, shape), whole, offsets, split)


def _over(view, kind, shape, stride):
    """The bytes as a tensor; nothing is copied."""
    import torch

    return torch.frombuffer(view, dtype=torch.uint8).view(kind).as_strided(shape, stride)


def _rows(shape):
    """The strides of elements that lie row by row."""
    stride = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        stride[i] = stride[i + 1] * max(shape[i + 1], 1)
    return stride
