"""Write docs/pictures/trace.png: the HTML report of a transpose, with the bank picture of a line.

    PYTHONPATH=. python docs/write_screenshot.py

Needs the built extension and Chromium, no GPU. Another version of Chromium gives another file, so
no test compares it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

import torch_smem_gemm as smem

PICTURE = Path(__file__).resolve().parent / "pictures" / "trace.png"
SIZE = (1240, 1350)
LINE = "transpose/ladder/tiled.cu:51.1"
SCRIPT = f'document.getElementById("{LINE}").querySelector("details").open = true;'
# Only the source, from the kernel's first line on.
STYLE = """
section:not(:has(.source)), nav, .skip, footer, #source ~ p { display: none; }
.quiet:first-of-type tr:nth-child(-n + 32), .busy ~ .quiet tr:nth-child(n + 4) { display: none; }
"""


def main() -> None:
    """Write the picture."""
    page = smem.trace("transpose", torch.ones(64, 64), kernel="tiled").to_html()
    page = page.replace("</style>", f"{STYLE}</style>", 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        page = page.replace("</body>", f"<script>{SCRIPT}</script></body>")
        path.write_text(page, encoding="utf-8")
        size = ",".join(map(str, SIZE))
        options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
        command = [str(shutil.which("chromium")), *options, f"--user-data-dir={folder}/profile"]
        PICTURE.parent.mkdir(exist_ok=True)
        subprocess.run([*command, f"--screenshot={PICTURE}", path.as_uri()], check=True)


if __name__ == "__main__":
    main()
