"""Restoring into tensors that are there: all of them fit, or none is touched."""

from . import _shard, _tree

SHOWN = 10  # mismatches that an error lists


class Mismatch(ValueError):
    """The state in memory is not that of this model; the message lists where they differ."""


def load(node, into, decoder):
    """Copies what the tree has into the tensors of a state of the same form, and lets the decoder give those.

    What into does not have is no error: it comes back new, as without into.
    """
    found, wrong = [], []
    _walk(node, into, "state", decoder, found, wrong)
    if wrong:
        more = "\n  and %d more" % (len(wrong) - SHOWN) if len(wrong) > SHOWN else ""
        raise Mismatch("the checkpoint does not fit, nothing was restored:\n  %s%s" % ("\n  ".join(wrong[:SHOWN]), more))
    for body, target, value in found:
        decoder.copy(body, target)
        decoder.tensors.setdefault(body[-2], value)


def _walk(node, value, path, decoder, found, wrong):
    if isinstance(node, dict) and "m" in node:
        node = node["m"][0]
    if isinstance(value, dict):
        pairs = next(iter(node.values())) if isinstance(node, dict) and set(node) <= set("doc") else []
        there = {decoder.node(k, 0): v for k, v in pairs}
        kids = [("[%r]" % (k,), v, there[k] if k in there else _nothing) for k, v in value.items()]
    elif type(value) in (list, tuple):
        items = node if isinstance(node, list) else node.get("t", []) if isinstance(node, dict) else []
        kids = [("[%d]" % i, v, items[i] if i < len(items) else _nothing) for i, v in enumerate(value)]
    else:
        _leaf(node, value, path, found, wrong)
        return
    for step, v, kid in kids:
        _walk(kid, v, path + step, decoder, found, wrong)


_nothing = object()


def _leaf(node, value, path, found, wrong):
    torch = _tree.module("torch")
    if torch is None or not (_shard.known(value) or isinstance(value, torch.Tensor)):
        return
    target, part = _shard.part(value) if _shard.known(value) else (value, None)
    here = _words(str(target.dtype).split(".")[-1], target.shape, part.global_shape if part else None, part.offsets if part else None)
    kind, body = next(iter(node.items())) if isinstance(node, dict) and len(node) == 1 else ("", None)
    if kind == "x":
        there = _words(body[0], body[1], None, None)
    elif kind == "h":
        there = _words(body[0], body[1], body[2], body[3])
    else:
        there = "nothing" if node is _nothing else "no tensor"
    if here != there:
        wrong.append("%s: %s is saved, the model has %s" % (path, there, here))
    else:
        found.append((body, target, value))


def _words(dtype, shape, whole, at):
    text = "%s %s" % (dtype, list(shape))
    return text if whole is None else "%s at %s of %s" % (text, list(at), list(whole))
