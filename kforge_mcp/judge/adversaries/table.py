"""Ways to fool a judge, as CPU candidates, and honest candidates that it must pass. Rows are those of the catalogue in
docs/judging.md; `cuda_table.py` has the same for CUDA."""

from __future__ import annotations

from kforge_mcp.judge.adversaries.cheat import Cheat, Honest
from kforge_mcp.judge.adversaries.honest_table import HONEST
from kforge_mcp.judge.adversaries.table_basics import BASICS
from kforge_mcp.judge.adversaries.table_checks import CHECKS
from kforge_mcp.judge.adversaries.table_process import PROCESS
from kforge_mcp.judge.adversaries.table_results import RESULTS

__all__ = ["CHEATS", "HONEST", "Cheat", "Honest"]

CHEATS: list[Cheat] = [*BASICS, *RESULTS, *PROCESS, *CHECKS]
