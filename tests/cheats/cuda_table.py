"""Ways to fool a judge, in CUDA C++. Rows are those of the catalogue in docs/judging.md.

`CHEATS` compile and must be rejected by a judge on a GPU; `HONEST` must pass there; `REFUSED` break the contract and
never reach one. All three are compiled in the tests of this folder, which needs no GPU.
"""

from __future__ import annotations

from tests.cheats.adversary import CudaCheat, CudaHonest, Refused
from tests.cheats.cuda_cheats import CHEATS
from tests.cheats.cuda_honest import HONEST
from tests.cheats.cuda_refused import REFUSED

__all__ = ["CHEATS", "HONEST", "REFUSED", "CudaCheat", "CudaHonest", "Refused"]
