"""digest.py FILE: a sum over the names and bits of the weights in a file that torch.save wrote."""

import hashlib
import sys

import torch

sha = hashlib.sha256()
for name, tensor in sorted(torch.load(sys.argv[1]).items()):
    sha.update(name.encode() + b"\0" + tensor.contiguous().numpy().tobytes())
print(sha.hexdigest())
