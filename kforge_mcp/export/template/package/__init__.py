"""Judged kernels for one model: `attach(model)` puts them in, `detach()` takes them out again.

Every kernel serves exactly the calls it was measured on; all others go to the model's own code, with the reason
counted in `stats()`. What was measured, and how, stands in VERIFICATION.md.
"""

from ._attach import Attached, attach, detach, enabled, stats
from ._library import UnsupportedError

__all__ = ["Attached", "UnsupportedError", "attach", "detach", "enabled", "stats"]
