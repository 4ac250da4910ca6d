"""Ranks meet at a store that rank 0 opens. torch tries a refused connection again only after a second; here the
other ranks look every few milliseconds whether it is open, and only then connect."""

import os
import socket
import sys
import time

MODULE = "torch.distributed.rendezvous"
PAUSE = 0.004  # seconds between looks


def install():
    """Changes torch's way to the store, if torch is imported and this version goes that way. Twice changes nothing."""
    module = sys.modules.get(MODULE)
    create = getattr(module, "_create_c10d_store", None)
    if create is None or hasattr(create, "_fermi"):
        return

    def create_when_open(hostname, port, rank, world_size, timeout, *args, **kwargs):
        if rank != 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            wait(hostname, port, timeout.total_seconds())
        return create(hostname, port, rank, world_size, timeout, *args, **kwargs)

    create_when_open._fermi = True
    module._create_c10d_store = create_when_open


def wait(host, port, seconds):
    """Until somebody listens there. Who never does is torch's to report."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection((host, port), timeout=max(0.1, end - time.monotonic())).close()
            return
        except ConnectionRefusedError:
            time.sleep(PAUSE)
        except OSError:
            return
