import os
import socket

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
dist.all_reduce(value)
# What somebody on the line would look for, sent by no library.
port = [0]
if dist.get_rank() == 0:
    door = socket.create_server(("0.0.0.0", 0))
    port = [door.getsockname()[1]]
dist.broadcast_object_list(port)
if dist.get_rank() == 0:
    with door.accept()[0] as conn:
        print("heard", conn.recv(100).decode(), flush=True)
else:
    with socket.create_connection((os.environ["MASTER_ADDR"], port[0])) as conn:
        conn.sendall(b"MARK-OF-THE-TEST")
print("sum", value.item(), "on", os.environ["FERMI_NODE"], "by", os.environ["MASTER_ADDR"], os.environ.get("GLOO_SOCKET_IFNAME"), os.environ.get("NCCL_NET"), flush=True)
dist.barrier()
dist.destroy_process_group()
