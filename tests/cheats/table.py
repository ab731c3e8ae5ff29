"""Ways to fool a judge, as CPU candidates, and honest candidates that it must pass. Rows are those of the catalogue in
docs/judging.md; `cuda_table.py` has the same for CUDA."""

from __future__ import annotations

from tests.cheats.cheat import Cheat, Honest
from tests.cheats.honest_table import HONEST
from tests.cheats.table_basics import BASICS
from tests.cheats.table_checks import CHECKS
from tests.cheats.table_process import PROCESS
from tests.cheats.table_results import RESULTS

__all__ = ["CHEATS", "HONEST", "Cheat", "Honest"]

CHEATS: list[Cheat] = [*BASICS, *RESULTS, *PROCESS, *CHECKS]
