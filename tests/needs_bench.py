"""To be imported before programs of bench/, which are not in source packages."""

from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
if not BENCH.exists():
    pytest.skip("bench/ is not in source packages", allow_module_level=True)
