from __future__ import annotations

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: pip install '.[mcp]'")
