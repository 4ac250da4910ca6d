"""python -m fermi.optimize --model PATH --to int8|uint8|onnx [--data FOLDER] [--file FILE] [--shape 1,3,224,224] [--max-loss POINTS]: makes a
smaller or faster model of one and measures both, side by side. Needs onnxruntime, onnx and numpy; for --to onnx also torch.

    int8, uint8   the weights of an ONNX model in 8 bits (ONNX Runtime's dynamic quantisation)
    onnx          a TorchScript module as ONNX, for an input of --shape

What it leaves in $FERMI_OUTPUT/model: the new model, what else lay beside the old one, and fermi-metadata.json with what was measured. A figure that
can't be measured is left out, and "measured.not" says why. --data has *.npz files: arrays by the names of the model's inputs, and `label` where the right class is
known. Without it the inputs are random: then speed counts, and accuracy is only how often both models say the same."""

import argparse
import glob
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

METADATA = "fermi-metadata.json"
TYPES = {
    "tensor(bool)": "bool", "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(int16)": "int16", "tensor(int32)": "int32",
    "tensor(int64)": "int64", "tensor(float16)": "float16", "tensor(float)": "float32", "tensor(double)": "float64",
}  # fmt: skip
RANDOM = 64  # random inputs
MOST = 512  # inputs that are tried


class Refused(Exception):
    """What is wrong with what was asked for."""


def find(root, wanted, endings):
    """The one file that is the model."""
    if wanted:
        at = os.path.join(root, wanted)
        if not os.path.isfile(at):
            raise Refused(f"there is no file {wanted} in the model")
        return at
    if os.path.isfile(root):
        return root
    found = [f for e in endings for f in sorted(glob.glob(os.path.join(glob.escape(root), "**", "*" + e), recursive=True))]
    if len(found) != 1:
        raise Refused(f"the model has {len(found)} files {' or '.join(endings)}: say which with --file")
    return found[0]


def quantise(source, target, to):
    from onnxruntime import quantization

    kind = quantization.QuantType.QInt8 if to == "int8" else quantization.QuantType.QUInt8
    with tempfile.TemporaryDirectory() as room:  # it writes beside what it reads, and a model's folder is read-only
        copy = shutil.copy(source, room)
        quantization.quantize_dynamic(copy, target, weight_type=kind)


def export(source, target, shape):
    import torch

    try:
        module = torch.jit.load(source, map_location="cpu").eval()  # a script: nothing is unpickled that runs code of its maker's
    except RuntimeError as err:
        raise Refused(f"{os.path.basename(source)} is no TorchScript module (torch.jit.save): {str(err).splitlines()[0]}") from None
    with torch.no_grad():
        torch.onnx.export(module, torch.zeros(shape), target, input_names=["input"], output_names=["output"], opset_version=13, dynamic_axes={"input": {0: "n"}, "output": {0: "n"}})
    return module


class ONNX:
    """A model behind ONNX Runtime, on as many cores as it may use."""

    def __init__(self, file):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = self.session.get_inputs()

    def __call__(self, feeds):
        return self.session.run(None, feeds)[0]


class Torch:
    """A TorchScript module, asked as its ONNX is."""

    def __init__(self, module):
        self.module = module

    def __call__(self, feeds):
        import torch

        with torch.no_grad():
            return self.module(torch.from_numpy(feeds["input"])).numpy()


def samples(model, folder):
    """(feeds, label or None) of a dataset, or made at random."""
    import numpy

    if folder:
        files = sorted(glob.glob(os.path.join(glob.escape(folder), "**", "*.npz"), recursive=True))
        if not files:
            raise Refused("the dataset has no file *.npz: arrays by the names of the model's inputs, and label where it is known")
        out, names = [], [i.name for i in model.inputs]
        for file in files:
            with numpy.load(file, allow_pickle=False) as z:
                missing = [n for n in names if n not in z]
                if missing:
                    raise Refused(f"{os.path.basename(file)} has no array {', '.join(missing)}")
                arrays = {i.name: z[i.name].astype(TYPES[i.type]) for i in model.inputs}
                labels = z["label"].reshape(-1) if "label" in z else None
            rows = min(len(a) for a in arrays.values())
            for r in range(min(rows, MOST - len(out))):
                out.append(({n: a[r : r + 1] for n, a in arrays.items()}, None if labels is None else int(labels[r])))
        return out, f"{len(out)} of the dataset"
    rng = numpy.random.default_rng(7)
    out = []
    for _ in range(RANDOM):
        feeds = {}
        for i in model.inputs:
            if i.type not in TYPES:
                raise Refused(f"the input {i.name} is {i.type}: random inputs can't be made, give --data")
            shape = [n if isinstance(n, int) and n > 0 else 1 for n in i.shape]
            kind = TYPES[i.type]
            feeds[i.name] = (rng.standard_normal(shape) if "float" in kind else rng.integers(0, 2 if kind == "bool" else 100, shape)).astype(kind)
        out.append((feeds, None))
    return out, f"{len(out)} random"


def measure(old, new, feeds):
    """Milliseconds of both, in turns, and what they said."""
    import numpy

    took, said = ([], []), ([], [])
    for model in (old, new):
        model(feeds[0][0])  # what is made once is not counted
    for one, _ in feeds:
        for k, model in enumerate((old, new)):
            begun = time.perf_counter()
            out = model(one)
            took[k].append((time.perf_counter() - begun) * 1e3)
            said[k].append(numpy.asarray(out, dtype="float64").reshape(-1))
    return took, said


def figures(old, new, feeds, told):
    import numpy

    out = {"measured.inputs": told, "measured.on": f"{len(os.sched_getaffinity(0))} cores, ONNX Runtime on the CPU"}
    took, said = measure(old, new, feeds)
    for k, word in enumerate(("before", "after")):
        out[f"latency.{word}.ms"] = f"{statistics.median(took[k]):.3f}"
        out[f"latency.p95.{word}.ms"] = f"{sorted(took[k])[int(0.95 * (len(took[k]) - 1))]:.3f}"
    out["speedup"] = f"{statistics.median(took[0]) / statistics.median(took[1]):.2f}"
    if any(a.shape != b.shape for a, b in zip(*said, strict=True)):
        return out, None, "the two models answer with other shapes"
    out["difference.most"] = f"{max(float(numpy.abs(a - b).max()) for a, b in zip(*said, strict=True)):.6g}"
    if said[0][0].size < 2:
        return out, None, "the answer is one number: there are no classes to compare"
    classes = [[int(a.argmax()) for a in one] for one in said]
    agree = 100 * sum(a == b for a, b in zip(*classes, strict=True)) / len(feeds)
    out["agreement.percent"] = f"{agree:.2f}"
    labelled = [i for i, (_, label) in enumerate(feeds) if label is not None]
    if not labelled:
        return out, 100 - agree, "accuracy: no labels were given"
    right = [100 * sum(one[i] == feeds[i][1] for i in labelled) / len(labelled) for one in classes]
    out["accuracy.before.percent"], out["accuracy.after.percent"] = (f"{r:.2f}" for r in right)
    return out, right[0] - right[1], ""


def run(args):
    torch = args.to == "onnx"
    source = find(args.model, args.file, [".pt", ".pth"] if torch else [".onnx"])
    root = args.model if os.path.isdir(args.model) else os.path.dirname(source)
    leave = os.path.join(args.out, "model")
    shutil.rmtree(leave, ignore_errors=True)
    shutil.copytree(root, leave, ignore=lambda at, names: [n for n in names if os.path.join(at, n) == source or n == METADATA])
    target = os.path.join(leave, os.path.splitext(os.path.relpath(source, root))[0] + ".onnx")
    if torch:
        try:
            shape = [int(n) for n in (args.shape or "").split(",")]
        except ValueError:
            raise Refused("--to onnx needs the shape of an input: --shape 1,3,224,224") from None
        old = Torch(export(source, target, shape))
    else:
        quantise(source, target, args.to)
        old = ONNX(source)
    new = ONNX(target)
    feeds, told = samples(new if torch else old, args.data)
    said, loss, unknown = figures(old, new, feeds, told)
    said = {"optimized.to": args.to, "size.before": str(os.path.getsize(source)), "size.after": str(os.path.getsize(target)), **said}
    if args.origin:
        said["optimized.from"] = args.origin
    if unknown:
        said["measured.not"] = unknown
    with open(os.path.join(leave, METADATA), "w") as f:
        json.dump(said, f, indent=1, sort_keys=True)
    for name, value in said.items():
        print(f"{name:24} {value}", flush=True)
    if args.max_loss is not None:
        if loss is None:
            raise Refused(f"--max-loss: what is lost can't be measured: {unknown}")
        if loss > args.max_loss:
            raise Refused(f"it loses {loss:.2f} points, more than {args.max_loss:g}: no version is made")


def main():
    p = argparse.ArgumentParser(prog="python -m fermi.optimize")
    p.add_argument("--model", default=os.environ.get("FERMI_MODEL"))
    p.add_argument("--file")
    p.add_argument("--to", required=True, choices=["int8", "uint8", "onnx"])
    p.add_argument("--data", default=os.environ.get("FERMI_DATASET"))
    p.add_argument("--shape")
    p.add_argument("--max-loss", type=float)
    p.add_argument("--origin", default="")
    p.add_argument("--out", default=os.environ.get("FERMI_OUTPUT"))
    args = p.parse_args()
    if not args.model or not args.out:
        raise SystemExit("say --model and --out; a task has them from fermi model optimize")
    try:
        run(args)
    except ModuleNotFoundError as err:
        raise SystemExit(f"{err}: install onnxruntime, onnx and numpy where it runs, for --to onnx also torch") from None
    except Refused as err:
        raise SystemExit(str(err)) from None
    sys.stdout.flush()


if __name__ == "__main__":
    main()
