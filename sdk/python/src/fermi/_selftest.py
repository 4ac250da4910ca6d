"""A moment of work on each device, with a result that is known: what a preflight runs with the ranks' own interpreter.

    python -c TEXT DEVICE COUNT      DEVICE is what PyTorch calls it: cpu, cuda, npu, mlu

NVIDIA's cards are asked through their driver: a context and the work take a second, the import of PyTorch five. Where
that can't be, and on everything else, PyTorch computes.

It says a line of JSON for everything that begins or ends, so that who hangs can be told from who is slow:
{"none": WHY} where it can't be tried here, {"seen": N} where fewer devices than COUNT are to be seen, {"begin": I}, and
{"end": I, "fault": "" or of FAULTS, "text": WHY}.
"""

import ctypes
import json
import os
import struct
import sys
import threading

FAULTS = ("wrong", "memory", "copy", "full", "failed")
SIDE = {"cpu": 256}  # of the matrices; elsewhere enough for every part of a card to have work
PATTERN = {"cpu": 16 << 20}  # bytes written and read back
COPY = 32 << 20  # bytes of them that are copied to the host
MODULES = {"npu": "torch_npu", "mlu": "torch_mlu"}


class Fault(Exception):
    """args: one of FAULTS, and why."""


class Unable(Exception):
    """The driver can't be asked."""


# Whole numbers and floats that are exact in any order; another word in every place of memory; the tensor cores.
PTX = """.version 7.0
.target %(target)s
.address_size 64
.visible .entry numbers(.param .u64 out, .param .u32 rounds) {
	.reg .pred %%p; .reg .u32 %%i, %%n, %%t, %%x, %%k, %%r; .reg .f32 %%f, %%g, %%h; .reg .u64 %%o, %%q;
	ld.param.u64 %%o, [out]; cvta.to.global.u64 %%o, %%o; ld.param.u32 %%r, [rounds];
	mov.u32 %%i, %%ctaid.x; mov.u32 %%n, %%ntid.x; mov.u32 %%t, %%tid.x; mad.lo.u32 %%i, %%i, %%n, %%t;
	and.b32 %%x, %%i, 63; and.b32 %%t, %%i, 7; cvt.rn.f32.u32 %%g, %%t; mov.f32 %%f, 0f00000000; mov.u32 %%k, 0;
LOOP:
	mad.lo.u32 %%x, %%x, 1664525, 1013904223;
	and.b32 %%t, %%k, 7; cvt.rn.f32.u32 %%h, %%t; fma.rn.f32 %%f, %%g, %%h, %%f;
	add.u32 %%k, %%k, 1; setp.lt.u32 %%p, %%k, %%r; @%%p bra LOOP;
	mul.wide.u32 %%q, %%i, 8; add.u64 %%q, %%o, %%q; st.global.u32 [%%q], %%x; st.global.f32 [%%q+4], %%f;
	ret;
}
.visible .entry words(.param .u64 out, .param .u32 count, .param .u32 flip, .param .u64 wrong) {
	.reg .pred %%p, %%c; .reg .u32 %%i, %%n, %%t, %%s, %%m, %%f, %%v, %%w; .reg .u64 %%o, %%q, %%x;
	ld.param.u64 %%o, [out]; cvta.to.global.u64 %%o, %%o; ld.param.u32 %%m, [count]; ld.param.u32 %%f, [flip];
	ld.param.u64 %%x, [wrong]; setp.ne.u64 %%c, %%x, 0;
	mov.u32 %%i, %%ctaid.x; mov.u32 %%n, %%ntid.x; mov.u32 %%t, %%tid.x; mad.lo.u32 %%i, %%i, %%n, %%t;
	mov.u32 %%s, %%nctaid.x; mul.lo.u32 %%s, %%s, %%n;
NEXT:
	setp.ge.u32 %%p, %%i, %%m; @%%p bra DONE;
	mul.lo.u32 %%v, %%i, 2654435769; xor.b32 %%v, %%v, %%f; mul.wide.u32 %%q, %%i, 4; add.u64 %%q, %%o, %%q;
	@%%c bra CHECK;
	st.global.u32 [%%q], %%v; bra ON;
CHECK:
	ld.global.u32 %%w, [%%q]; setp.ne.u32 %%p, %%w, %%v; @%%p red.global.add.u32 [%%x], 1;
ON:
	add.u32 %%i, %%i, %%s; bra NEXT;
DONE:
	ret;
}
%(tensor)s"""
TENSOR = """.visible .entry tensor(.param .u64 out, .param .u32 rounds) {
	.reg .pred %p; .reg .u32 %i, %n, %t, %k, %r; .reg .b32 %a, %b; .reg .f32 %d<4>; .reg .u64 %o, %q;
	ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o; ld.param.u32 %r, [rounds];
	mov.b32 %a, 0x40004000; mov.b32 %b, 0x42004200; mov.u32 %k, 0;
	mov.f32 %d0, 0f00000000; mov.f32 %d1, 0f00000000; mov.f32 %d2, 0f00000000; mov.f32 %d3, 0f00000000;
LOOP:
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%a, %a, %a, %a}, {%b, %b}, {%d0, %d1, %d2, %d3};
	add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %r; @%p bra LOOP;
	mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;
	mul.wide.u32 %q, %i, 16; add.u64 %q, %o, %q; st.global.v4.f32 [%q], {%d0, %d1, %d2, %d3};
	ret;
}
"""


class Driver:
    """NVIDIA's driver, by its own words (libcuda)."""

    BLOCKS, THREADS, ROUNDS = 2048, 128, 4096
    FULL = 2  # CUDA_ERROR_OUT_OF_MEMORY
    OLD = (200, 209, 218, 222)  # it can't read the program

    def __init__(self):
        try:
            self.lib = ctypes.CDLL("libcuda.so.1")
            self.call("cuInit", 0)
            count = ctypes.c_int()
            self.call("cuDeviceGetCount", ctypes.byref(count))
        except (OSError, AttributeError, Fault) as e:
            raise Unable(str(e)) from None
        self.count = count.value

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code in self.OLD:
            raise Unable("%s: %d" % (name, code))
        if code:
            said = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(said))
            raise Fault("full" if code == self.FULL else "failed", "%s: %s" % (name, (said.value or b"%d" % code).decode()))

    def attribute(self, which, device):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def run(self, function, *args):
        pointers = (ctypes.c_void_p * len(args))(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in args])
        self.call("cuLaunchKernel", function, self.BLOCKS, 1, 1, self.THREADS, 1, 1, 0, None, pointers, None)
        self.call("cuCtxSynchronize")

    def function(self, module, name):
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), module, name)
        return found

    def back(self, at, size):
        host = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", host, at, ctypes.c_size_t(size))
        return host.raw

    def work(self, index):
        device, context, module, at = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        tensor = self.attribute(75, device) >= 8  # the major number of what it can
        text = PTX % {"target": "sm_80" if tensor else "sm_50", "tensor": TENSOR if tensor else ""}
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode())
        size, lanes = 256 << 20, self.BLOCKS * self.THREADS
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size + 4))
        self.run(self.function(module, b"numbers"), at, ctypes.c_uint32(self.ROUNDS))
        if self.back(at, 8 * lanes) != self.tile() * (lanes // 64):
            raise Fault("wrong", "whole numbers or floats differ")
        if tensor:
            self.run(self.function(module, b"tensor"), at, ctypes.c_uint32(1024))
            if self.back(at, 16 * lanes) != struct.pack("<f", 1024 * 16 * 2.0 * 3.0) * (4 * lanes):
                raise Fault("wrong", "the tensor cores' numbers differ")
        self.memory(self.function(module, b"words"), at, size)

    def tile(self):
        """What 64 neighbours compute."""
        out = b""
        for i in range(64):
            x = i
            for _ in range(self.ROUNDS):
                x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
            out += struct.pack("<If", x, float(i % 8 * 28 * (self.ROUNDS // 8)))
        return out

    def memory(self, words, at, size):
        count, wrong = ctypes.c_uint32(size // 4), ctypes.c_uint64(at.value + size)
        for flip in (0, 0xFFFFFFFF):
            self.call("cuMemsetD32_v2", wrong, 0, ctypes.c_size_t(1))
            self.run(words, at, count, ctypes.c_uint32(flip), ctypes.c_uint64(0))
            self.run(words, at, count, ctypes.c_uint32(flip), wrong)
            bad = struct.unpack("<I", self.back(wrong, 4))[0]
            if bad:
                raise Fault("memory", "%d of %d words came back otherwise than they were written" % (bad, count.value))
        self.call("cuMemsetD32_v2", at, 0x5A5A5A5A, ctypes.c_size_t(COPY // 4))
        if self.back(at, COPY) != b"\x5a" * COPY:
            raise Fault("copy", "other bytes came to the host than are on the device")


def product(torch, device, kind, side, inner, period):
    """A product of matrices of small whole numbers: exact in any order of summing, so that it is known to the bit.

    With a[i, k] = (i + k) % period and b[k, j] = (k + j) % period it repeats in both directions.
    """
    row, column = torch.arange(side, device=device), torch.arange(inner, device=device)
    a = ((row[:, None] + column[None, :]) % period).to(kind)
    got = (a @ ((column[:, None] + row[None, :]) % period).to(kind)).cpu()
    tile = [[sum((i + k) % period * ((k + j) % period) for k in range(period)) * (inner // period) for j in range(period)] for i in range(period)]
    want = torch.tensor(tile, dtype=torch.float32).to(kind).repeat(side // period, side // period)
    if not torch.equal(got, want):
        raise Fault("wrong", "%d of %d numbers of a product differ (%s)" % (int((got != want).sum()), got.numel(), kind))


def pattern(torch, device, size):
    """Another word in every place, and then its opposite, so that every bit was both."""
    words = torch.arange(size // 4, dtype=torch.int32, device=device)
    words.mul_(-1640531527)
    for flip in (0, -1):
        held = words ^ flip
        if not torch.equal(held ^ flip, words):
            raise Fault("memory", "other bytes came back than were written")
    some = words[: COPY // 4].cpu()
    if not torch.equal(some, torch.arange(some.numel(), dtype=torch.int32).mul_(-1640531527)):
        raise Fault("copy", "other bytes came to the host than are on the device")


def work(torch, name, index):
    device = torch.device(name) if name == "cpu" else torch.device(name, index)
    side = SIDE.get(name, 4096)
    with torch.no_grad():
        product(torch, device, torch.float32, side, side, 8)
        if name != "cpu":
            product(torch, device, torch.float16, side, 256, 2)
        pattern(torch, device, PATTERN.get(name, 256 << 20))


def attempt(work, index, say):
    say(begin=index)
    fault, text = "", ""
    try:
        work(index)
    except Fault as e:
        fault, text = e.args
    except Exception as e:
        fault, text = "full" if "out of memory" in str(e) else "failed", first_line(e)
    say(end=index, fault=fault, text=text)


def by_driver(driver, index):
    try:
        driver.work(index)
    except Unable:
        import torch

        work(torch, "cuda", index)


def first_line(e):
    return ("%s: %s" % (type(e).__name__, e)).splitlines()[0][:150]


def main(name, count, out):
    lock = threading.Lock()

    def say(**words):
        with lock:
            out.write(json.dumps(words) + "\n")
            out.flush()

    def all_of(work):  # side by side: one that hangs does not hide the others
        threads = [threading.Thread(target=attempt, args=(work, index, say), daemon=True) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    if name == "cuda":
        try:
            driver = Driver()
            if driver.count < count:
                return say(seen=driver.count)
            return all_of(lambda index: by_driver(driver, index))
        except Unable:
            pass
    try:
        import torch

        if name in MODULES:
            __import__(MODULES[name])
    except Exception as e:
        return say(none=first_line(e))
    if name == "cpu":
        torch.set_num_threads(1)
    elif name == "cuda" and not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return say(none="this PyTorch is for processors only")
    elif getattr(torch, name).device_count() < count:
        return say(seen=getattr(torch, name).device_count())
    all_of(lambda index: work(torch, name, index))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # what libraries do at their end is not of interest
