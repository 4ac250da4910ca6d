"""The command as it is: rank 0 adds up and tells the others."""
import os
import socket
import time

from check import check

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(at) as server:
        others = [server.accept()[0] for _ in range(world - 1)]
    total = 1 + sum(int(c.makefile().readline()) for c in others)
    for c in others:
        c.sendall(b"%d\n" % total)
else:
    while True:
        try:
            c = socket.create_connection(at)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    c.sendall(b"%d\n" % (rank + 1))
    total = int(c.makefile().readline())
check(rank, world, total)
