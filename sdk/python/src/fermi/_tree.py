"""A state as a JSON tree and raw bytes, and back.

Nothing is pickled and nothing is unpickled: what a slot holds can hold no code. Tensors, arrays and
bytes become blobs, copied as they are; the rest becomes JSON that says which Python types it was:
lists are arrays, anything else that JSON has no word for is an object with one key. What is not known
here is refused by its path, never guessed.
"""

import collections
import ctypes
import functools
import json
import struct
import sys

from . import _shard, _together

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
        self.memory = []  # (offset, length, tensor or array): blobs whose bytes lie here, in this order
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

    def copy(self, view):
        """Puts the blobs into the view of the data; finish waits for those that may take their time."""
        for at, length, copy in self.blobs:
            if length:
                copy(view[at : at + length])
        memory = [blob for blob in self.memory if blob[1]]
        if memory:
            data = ctypes.addressof(ctypes.c_char.from_buffer(view))
            _together.copy([(data + at, _address(value), length) for at, length, value in memory])
        for device in self._direct:
            sys.modules["torch"].cuda.current_stream(device).synchronize()
        for device, blobs in self.later.items():
            copies = [functools.partial(copy, view[at : at + length]) for at, length, copy in blobs if length]
            self._waits.append(self._overlap.begin(device, copies))

    def finish(self):
        for wait in self._waits:
            wait()

    def encoded(self):
        return json.dumps(self.tree, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()

    def _blob(self, length, what, blobs=None):
        offset = self.length
        (self.blobs if blobs is None else blobs).append((offset, length, what))
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
            return {"n": [value.dtype.str, shape, self._blob(flat.nbytes, flat, self.memory), flat.nbytes]}
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
        if _plain(value):
            at = self._blob(length, value, self.memory)
        else:
            value, blobs = self._card(value, length) if value.is_cuda else (value, self.blobs)
            at = self._blob(length, _tensor_copier(torch, value), blobs)
        self._seen[identity] = leaf(at, length)
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


def _address(value):
    return value.data_ptr() if hasattr(value, "data_ptr") else value.ctypes.data


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
    state = decoder.node(root, 0)
    for jobs in _apart(decoder.jobs):
        _together.copy(jobs)
    return state


def _apart(jobs):
    """The jobs as lists that go one after the other: one of all of them, unless into has tensors that share memory."""
    ends = 0
    for to, _, length in sorted(jobs):
        if to < ends:
            return [[job] for job in jobs]
        ends = to + length
    return [jobs]


class _Decoder:
    def __init__(self, data):
        self.data = data
        self.tensors = {}
        self.jobs = []  # to, from, bytes: what is copied at the end

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
                self.tensors[offset] = self._tensor(view, *body[:3]) if kind == "x" else self._part(view, *body[:5])
            return self.tensors[offset]
        raise ValueError("unknown kind %r" % kind)

    def blob(self, offset, length):
        if not 0 <= offset <= offset + length <= len(self.data):
            raise ValueError("a blob lies outside of the data")
        return self.data[offset : offset + length]

    def copy(self, body, target):
        """Fills a tensor of the shape and type that the leaf has."""
        self._fill(target.detach(), self.blob(*body[-2:]), body[2] if len(body) == 5 else _rows(body[1]))

    def _tensor(self, view, dtype, shape, stride):
        import torch

        kind = getattr(torch, dtype)
        if not isinstance(kind, torch.dtype):
            raise ValueError("unknown element type %r" % dtype)
        made = torch.empty_strided(shape, stride, dtype=kind)
        self._fill(made, view, stride)
        return made

    def _part(self, view, dtype, shape, whole, offsets, split):
        return _shard.shard(self._tensor(view, dtype, shape, _rows(shape)), whole, offsets, split)

    def _fill(self, target, view, stride):
        if not _fits(target, view):
            return
        saved = _over(view, target.dtype, target.shape, stride)
        if _plain(target) and target.stride() == saved.stride() and _dense(target.shape, target.stride()):
            self.jobs.append((target.data_ptr(), saved.data_ptr(), len(view)))
        else:
            target.copy_(saved)


def tensor(view, dtype, shape):
    """A copy of elements that lie row by row."""
    import torch

    made = torch.empty(shape, dtype=getattr(torch, dtype))
    return made.copy_(_over(view, made.dtype, shape, _rows(shape))) if _fits(made, view) else made


def _fits(target, view):
    """Whether there are bytes to be copied; as many as the tensor has."""
    length = target.numel() * target.element_size()
    if length != len(view):
        raise ValueError("a tensor of %d bytes has %d" % (length, len(view)))
    return length > 0


def _plain(value):
    """Whether a tensor's elements are those of the memory it points to."""
    return value.device.type == "cpu" and value.data_ptr() != 0 and not value.is_neg()


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
