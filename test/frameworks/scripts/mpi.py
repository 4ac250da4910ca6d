"""MPI_Allreduce over mpirun's processes."""
from mpi4py import MPI

from check import check

world = MPI.COMM_WORLD
check(world.Get_rank(), world.Get_size(), world.allreduce(world.Get_rank() + 1))
