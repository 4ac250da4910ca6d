"""python -m fermi.onnx --model FILE [--name NAME] [--max-batch N] [--port PORT]: answers with an ONNX model by ONNX Runtime, as the
Open Inference Protocol (V2) says, tensors as JSON. Needs onnxruntime and numpy. Standard library beside them.

    GET  /v2, /v2/health/live, /v2/health/ready, /v2/models/NAME, /v2/models/NAME/ready, /metrics
    POST /v2/models/NAME/infer    {"inputs": [{"name", "shape", "datatype", "data"}, …]}

With --max-batch, questions that came while the model was busy are answered together where their tensors fit."""

import argparse
import http.server
import json
import os
import queue
import signal
import socket
import sys
import threading
import time

MOST = 64 << 20  # bytes of a question
TYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "object",
}  # fmt: skip
ONNX = {
    "tensor(bool)": "BOOL", "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16", "tensor(uint32)": "UINT32", "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8", "tensor(int16)": "INT16", "tensor(int32)": "INT32", "tensor(int64)": "INT64", "tensor(float16)": "FP16",
    "tensor(float)": "FP32", "tensor(double)": "FP64", "tensor(string)": "BYTES",
}  # fmt: skip


class Bad(Exception):
    """What is wrong with a question."""


class Ask:
    """One question on its way through the model."""

    def __init__(self, feeds, wanted):
        self.feeds, self.wanted = feeds, wanted
        self.done = threading.Event()
        self.out = self.error = None


class Model:
    def __init__(self, file, name, most):
        import numpy
        import onnxruntime

        self.np, self.name, self.most = numpy, name, max(most, 1)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(file, options, providers=onnxruntime.get_available_providers())
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.outputs = {o.name: o for o in self.session.get_outputs()}
        self.waiting = queue.SimpleQueue()
        self.asked = self.failed = self.runs = 0
        self.seconds = 0.0
        self.lock = threading.Lock()
        threading.Thread(target=self.work, daemon=True).start()

    def about(self):
        def tensors(list):
            return [
                {"name": t.name, "datatype": ONNX.get(t.type, t.type), "shape": [n if isinstance(n, int) else -1 for n in t.shape]}
                for t in list
            ]

        return {
            "name": self.name, "versions": ["1"], "platform": "onnx_onnxruntime",
            "inputs": tensors(self.inputs.values()), "outputs": tensors(self.outputs.values()),
        }  # fmt: skip

    def feeds(self, question):
        given = question.get("inputs") if isinstance(question, dict) else None
        if not isinstance(given, list) or not given:
            raise Bad("inputs must be a list of tensors")
        feeds = {}
        for t in given:
            if not isinstance(t, dict) or t.get("name") not in self.inputs:
                raise Bad(f"the model has the inputs {', '.join(self.inputs)}")
            want = ONNX.get(self.inputs[t["name"]].type)
            if t.get("datatype") != want:
                raise Bad(f"{t['name']} is of {want}")
            try:
                feeds[t["name"]] = self.np.array(t.get("data"), dtype=TYPES[want]).reshape(t.get("shape"))
            except (TypeError, ValueError, OverflowError) as err:
                raise Bad(f"{t['name']}: {err}") from None
        missing = [n for n in self.inputs if n not in feeds]
        if missing:
            raise Bad(f"the inputs {', '.join(missing)} are missing")
        return feeds

    def infer(self, question):
        wanted = [o.get("name") for o in question.get("outputs") or []] if isinstance(question, dict) else []
        for name in wanted:
            if name not in self.outputs:
                raise Bad(f"the model has the outputs {', '.join(self.outputs)}")
        ask = Ask(self.feeds(question), wanted or list(self.outputs))
        self.waiting.put(ask)
        ask.done.wait()
        with self.lock:
            self.asked += 1
            self.failed += ask.error is not None
        if ask.error is not None:
            raise Bad(str(ask.error).splitlines()[0][:500])
        outputs = []
        for name, value in zip(ask.wanted, ask.out, strict=True):
            outputs.append({
                "name": name, "datatype": ONNX.get(self.outputs[name].type, "FP32"), "shape": list(value.shape),
                "data": [x.decode(errors="replace") if isinstance(x, bytes) else x for x in value.reshape(-1).tolist()],
            })  # fmt: skip
        return {"model_name": self.name, "model_version": "1", "id": question.get("id", ""), "outputs": outputs}

    def fits(self, a, b):
        """Says that two questions can be one: all tensors alike but for their first, equal, lengths."""
        if a.wanted != b.wanted or any(t.ndim == 0 for t in b.feeds.values()):
            return False
        if len({t.shape[0] for t in b.feeds.values()}) != 1 or len({t.shape[0] for t in a.feeds.values()}) != 1:
            return False
        return all(isinstance(i.shape[0] if i.shape else 1, str | None) and a.feeds[n].shape[1:] == b.feeds[n].shape[1:] for n, i in self.inputs.items())

    def work(self):
        left = None
        while True:
            first, left = left or self.waiting.get(), None
            batch = [first]
            while len(batch) < self.most and not self.waiting.empty():
                other = self.waiting.get()
                if not all(t.ndim for t in first.feeds.values()) or not self.fits(first, other):
                    left = other
                    break
                batch.append(other)
            try:
                self.run(batch)
            except Exception as err:  # of the model's own: whoever asked is told
                for ask in batch:
                    ask.error = err
            for ask in batch:
                ask.done.set()

    def run(self, batch):
        begun = time.monotonic()
        if len(batch) == 1:
            batch[0].out = self.session.run(batch[0].wanted, batch[0].feeds)
        else:
            together = {n: self.np.concatenate([ask.feeds[n] for ask in batch]) for n in self.inputs}
            out = self.session.run(batch[0].wanted, together)
            at = 0
            for ask in batch:
                n = next(iter(ask.feeds.values())).shape[0]
                ask.out = [value[at : at + n] for value in out]
                at += n
        with self.lock:
            self.runs += 1
            self.seconds += time.monotonic() - begun

    def metrics(self):
        with self.lock:
            return (
                f"fermi_onnx_requests_total {self.asked}\nfermi_onnx_failures_total {self.failed}\n"
                f"fermi_onnx_runs_total {self.runs}\nfermi_onnx_run_seconds_total {self.seconds:.6f}\n"
            )


def handler(model):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 120

        def say(self, status, body, kind="application/json"):
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def do_GET(self):
            path = self.path.split("?")[0].rstrip("/")
            own = "/v2/models/" + model.name
            if path == "/v2":
                self.say(200, {"name": "fermi.onnx", "version": "1", "extensions": []})
            elif path in ("/v2/health/live", "/v2/health/ready", own + "/ready"):
                self.say(200, {"live": True, "ready": True})
            elif path in (own, own + "/versions/1"):
                self.say(200, model.about())
            elif path == "/metrics":
                self.say(200, model.metrics(), "text/plain; version=0.0.4")
            else:
                self.say(404, {"error": "there is nothing here"})

        do_HEAD = do_GET

        def do_POST(self):
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > MOST:
                self.close_connection = True
                self.say(413 if length.isdigit() else 411, {"error": f"a question has a length of at most {MOST} bytes"})
                return
            body = self.rfile.read(int(length))
            if self.path.split("?")[0] not in (f"/v2/models/{model.name}/infer", f"/v2/models/{model.name}/versions/1/infer"):
                self.say(404, {"error": f"the model is {model.name}"})
                return
            try:
                self.say(200, model.infer(json.loads(body)))
            except (Bad, ValueError, TypeError, AttributeError) as err:
                self.say(400, {"error": str(err)})

        def log_message(self, form, *args):
            if os.environ.get("FERMI_ONNX_LOG"):
                super().log_message(form, *args)

    return Handler


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = False  # the last answers are given before it ends

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().server_bind()


def main():
    p = argparse.ArgumentParser(prog="python -m fermi.onnx")
    p.add_argument("--model", required=True)
    p.add_argument("--name", default="model")
    p.add_argument("--max-batch", type=int, default=1)
    p.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8000")))
    args = p.parse_args()
    try:
        model = Model(args.model, args.name, args.max_batch)
    except ModuleNotFoundError as err:
        raise SystemExit(f"{err}: install onnxruntime and numpy where the service runs") from None
    server = Server(("", args.port), handler(model))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"{args.name} of {args.model}: answers on port {args.port}, with {', '.join(model.session.get_providers())}", flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
