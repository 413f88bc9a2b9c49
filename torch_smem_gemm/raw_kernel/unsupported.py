"""What CUDA C++ has and the CPU cannot run: found in the source, and named."""

from __future__ import annotations

import re

from torch_smem_gemm.raw_kernel import text

_CONSTRUCTS = [
    (
        r"\bwmma\s*::\s*experimental\b|\bbmma_sync\b",
        None,
        "fragments of 1 and 4 bits cannot run on the CPU yet",
    ),
    (r"<<<", "<<<>>>", "a kernel that launches kernels cannot run on the CPU"),
    (
        r"\bcub\s*::\s*(?!(?:Block|Warp)(?:Reduce|Scan)\b|Sum\b|Max\b|Min\b|Arg(?:Max|Min)\b"
        r"|KeyValuePair\b|BLOCK_(?:REDUCE|SCAN)_\w+)\w+"
        r"|\b(?:thrust|cutlass|cute|nvshmem\w*)\s*(?=::)|\bcurand\w*",
        None,
        "device libraries cannot run on the CPU",
    ),
    (
        r"\btex(?:1D|2D|3D|Cubemap)\w*|\bsurf(?:1D|2D|3D|Cubemap)\w*|\btexture\s*(?=<)",
        None,
        "textures and surfaces cannot run on the CPU yet",
    ),
    (
        r"\b(?:this_cluster|cluster_group|__cluster\w+)\b",
        None,
        "thread block clusters cannot run on the CPU yet",
    ),
    (r"\bblock_tile_memory\b", None, "tiles of several warps cannot run on the CPU yet"),
    (
        r"\bcp_async_bulk\w*|\bCUtensorMap\b|\bcuda\s*::\s*ptx\b|\b__nv_fp[48]\w*",
        None,
        "it cannot run on the CPU yet",
    ),
    (
        r"\b(?:malloc|free)\s*(?=\()|\bnew\s+(?=\w)|\bdelete\s*(?:\[\s*\]\s*)?(?=\w)",
        None,
        "a kernel on the CPU cannot allocate memory yet",
    ),
    (
        r"(?<![.>\w])(?:std\s*::\s*)?"
        r"\b(?:abort|_?exit|_Exit|quick_exit|terminate|pthread_exit|system|fork|u?sleep)\s*(?=\()",
        None,
        "a kernel cannot call a function of the host",
    ),
    (
        r"\bcublas[A-Z]\w+\s*(?=\()|\b(?:cudnn|cufft(?!(?:Double)?(?:Real|Complex)\b)|cusolver|cusparse|nccl)\w+",
        None,
        "libraries of the host are not there on the CPU",
    ),
]
_ASSEMBLY = r"\b(?:asm|__asm__|__asm)\s*(?:volatile|__volatile__)?\s*\("
_TEMPLATE = re.compile(r'(?:\s*"(?:\\.|[^"\\])*")+')
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)


class Uses:
    """What a source uses that the CPU cannot run."""

    def __init__(self, code: str, masked: str, file: str) -> None:
        self._code, self._masked, self._file = code, masked, file
        self._rules = [(re.compile(pattern), name, why) for pattern, name, why in _CONSTRUCTS]
        self._assembly = re.compile(_ASSEMBLY)
        self._macros: dict[str, str] = {}
        for match in _DEFINE.finditer(masked):
            reason = self.reason(match.end(), text.end_of_directive(masked, match.end()))
            if reason:
                self._macros[match[1]] = reason

    def reason(self, start: int, end: int) -> str | None:
        """Return where and why a part of the source cannot run, or None if it can."""
        for rule, name, why in self._rules:
            match = rule.search(self._masked, start, end)
            if match:
                return f"{self._place(match.start())}: {name or match[0].strip()}: {why}"
        for match in self._assembly.finditer(self._masked, start, end):
            template = _TEMPLATE.match(self._code, match.end())
            instruction = re.search(r"[a-z][\w.:]+", template[0]) if template else None
            if instruction:  # one without orders the compiler only
                where = self._place(match.start())
                return f"{where}: asm: PTX ({instruction[0]}) cannot run on the CPU yet"
        names = re.findall(r"\w+", self._masked[start:end]) if self._macros else []
        return next((self._macros[name] for name in names if name in self._macros), None)

    def _place(self, position: int) -> str:
        return f"{self._file}:{text.line_of(self._code, position)}"
