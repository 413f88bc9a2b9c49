"""Inline PTX that means the same as a line of C++: special registers, cp.async, approximations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch_smem_gemm.raw_kernel import text

_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\s*(?:volatile|__volatile__)?\s*(?=\()")
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_CONTINUATION = re.compile(r"\\\n")  # of a macro
_DIRECTIVE = re.compile(r"^([ \t]*#(?:\\\n|[^\n])*)\n", re.M)

_REGISTERS = {
    "laneid": "smem_lane()",
    "warpid": "(smem_thread_number() / 32)",
    "smid": "0",
    "nsmid": "1",
    "gridid": "0",
    "clock": "smem_clock()",
    "clock64": "smem_clock()",
    "globaltimer": "smem_clock()",
    "lanemask_eq": "(1u << smem_lane())",
    "lanemask_lt": "((1u << smem_lane()) - 1)",
    "lanemask_le": "((2u << smem_lane()) - 1)",
    "lanemask_gt": "(~1u << smem_lane())",
    "lanemask_ge": "(~0u << smem_lane())",
} | {
    f"{register}.{axis}": f"{variable}.{axis}"
    for register, variable in (
        ("tid", "threadIdx"),
        ("ntid", "blockDim"),
        ("ctaid", "blockIdx"),
        ("nctaid", "gridDim"),
    )
    for axis in "xyz"
}

# Those of registers that the statement declares.
_TYPES = {
    "pred": "bool",
    **dict.fromkeys(("b32", "u32"), "unsigned"),
    **dict.fromkeys(("b64", "u64"), "unsigned long long"),
    "s32": "int",
    "s64": "long long",
    "f32": "float",
    "f64": "double",
}

# Instructions without their operands, and what they are in C++; {0} is the first operand. What only
# hints at caches is nothing.
_INSTRUCTIONS = [
    (r"mov\.[usbf]\d+", "{0} = {1}"),
    (r"ex2\.approx(?:\.ftz)?\.f32", "{0} = exp2f({1})"),
    (r"lg2\.approx(?:\.ftz)?\.f32", "{0} = log2f({1})"),
    (r"rcp\.(?:approx|rn)(?:\.ftz)?\.f32", "{0} = 1 / ({1})"),
    (r"sqrt\.(?:approx|rn)(?:\.ftz)?\.f32", "{0} = sqrtf({1})"),
    (r"rsqrt\.approx(?:\.ftz)?\.f32", "{0} = rsqrtf({1})"),
    (r"sin\.approx(?:\.ftz)?\.f32", "{0} = sinf({1})"),
    (r"cos\.approx(?:\.ftz)?\.f32", "{0} = cosf({1})"),
    (r"tanh\.approx\.f32", "{0} = tanhf({1})"),
    (r"fma\.rn(?:\.ftz)?\.f32", "{0} = fmaf({1}, {2}, {3})"),
    (
        r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\d+B)?",
        "smem_ptx_cp_async({operands})",
    ),
    (r"cp\.async\.commit_group", "smem_cp_async_commit()"),
    (r"cp\.async\.wait_group", "smem_cp_async_wait({0})"),
    (r"cp\.async\.wait_all", "smem_cp_async_commit(), smem_cp_async_wait(0)"),
    (r"setp\.eq\.[bsu]32", "{0} = (int){1} == (int){2}"),
    (r"setp\.ne\.[bsu]32", "{0} = (int){1} != (int){2}"),
    (r"cvta\.to\.shared\.u64", "{0} = __cvta_generic_to_shared((const void*)({1}))"),
    (r"cvt\.u32\.u64", "{0} = (unsigned)({1})"),
    (r"(?:bar|barrier)\.sync(?:\.aligned)?\s+0", "__syncthreads()"),
    (r"(?:membar|fence)\.[\w.:]+|prefetchu?\.[\w.:]+|discard\.[\w.:]+", "(void)0"),
]


# What a load's cache operators mean is left to a GPU. (Those that order memory are not here.)
_MEMORY = re.compile(
    r"(?P<does>ld|st)(?:\.weak)?(?:\.(?:ca|cg|cs))?(?P<space>\.global|\.shared)?(?:::cta)?(?:\.(?:ca|cg|cs|lu|nc|wb))*"
    r"(?:\.L[12]::[\w:]+)*(?:\.v(?P<count>[24]))?\.[bfus](?P<bits>16|32|64)\s+(?P<operands>.*)"
)


def to_cpp(code: str) -> str:
    """Return the source with C++ for every asm statement whose instructions are known."""
    masked = text.mask(code)
    parts, end = [], 0
    for match in _STATEMENT.finditer(masked):
        if match.start() < end:
            continue
        after = text.closing_bracket(masked, match.end())
        translated = _statement(code[match.end() + 1 : after - 1])
        if translated is None:
            continue
        parts += [code[end : match.start()], translated]
        count = code.count("\n", match.start(), after) - translated.count("\n")
        # In a macro, which has no conditions, lines end with a backslash.
        in_macro = "\n" not in translated and _CONTINUATION.search(code, match.start(), after)
        parts.append(("\\\n" if in_macro else "\n") * count)
        end = after
    return "".join([*parts, code[end:]])


def _statement(content: str) -> str | None:
    """Return C++ for what is between the parentheses of an asm statement, or None."""
    content = _CONTINUATION.sub(" ", content)
    masked = _DIRECTIVE.sub(lambda match: text.blank(match[0]), text.mask(content))
    sections, position = [], 0
    for section in text.split(masked, ":"):
        sections.append(content[position : position + len(section)])
        position += len(section) + 1
    template = sections[0]
    if re.sub(r"\s", "", _STRING.sub("", _DIRECTIVE.sub("", template))):
        return None  # a macro makes a part of it
    names: dict[str, str] = {}
    for section in sections[1:3]:
        for operand in _operands(section):
            names[f"%{len(names)}"] = operand
    translated: list[str | None] = []
    for part in _DIRECTIVE.split(template):
        if part.lstrip().startswith("#"):  # the instructions depend on a condition
            translated.append(f"\n{part}\n")
            continue
        strings = "".join(match[1] for match in _STRING.finditer(part))
        lines = re.sub(r"\\[nt]|//.*?\\n", " ", strings).split(";")
        translated += [_line(line, names) for line in lines if line.strip(" {}")]
    if None in translated or not translated:  # without instructions it orders the compiler only
        return None
    return "do { " + "".join(map(str, translated)) + "} while (0)"


def _line(line: str, names: dict[str, str]) -> str | None:
    """Return C++ for a declaration of registers, which become names, or for an instruction."""
    line = line.strip().lstrip("{ ")
    if declared := re.fullmatch(r"\.reg\s+\.(\w+)\s+(\w+(?:\s*,\s*\w+)*)", line):
        registers = re.findall(r"\w+", declared[2])
        if declared[1] not in _TYPES:
            return None
        names |= {register: f"smem_register_{register}" for register in registers}
        return "".join(f"{_TYPES[declared[1]]} {names[name]}{{}}; " for name in registers)
    condition = ""
    if guarded := re.fullmatch(r"@(!?)(\w+)\s+(.*)", line):
        condition, line = f"if ({guarded[1]}{names.get(guarded[2], guarded[2])}) ", guarded[3]
    instruction = _instruction(line, names)
    return None if instruction is None else f"{condition}{instruction}; "


def _operands(section: str) -> list[str]:
    """Return the expressions of a section of an asm statement."""
    return [
        f"({part[part.index('(') + 1 : part.rindex(')')]})"
        for part in text.split(section)
        if "(" in part
    ]


def _instruction(line: str, names: Mapping[str, str]) -> str | None:
    if match := _MEMORY.fullmatch(line):
        return _memory(match, names)
    for pattern, meaning in _INSTRUCTIONS:
        match = re.fullmatch(rf"{pattern}(?:\s+(.*))?", line)
        if not match:
            continue
        values = [
            _operand(part.strip(), names) for part in text.split(match[match.re.groups] or "")
        ]
        if None in values and "{" in meaning:
            return None
        return meaning.format(*values, operands=", ".join(map(str, values)))
    return None


def _memory(match: re.Match[str], names: Mapping[str, str]) -> str | None:
    """Return C++ for a load or store of one to four registers."""
    parts = [part.strip() for part in text.split(match["operands"])]
    if match["does"] == "st":
        parts.reverse()
    if len(parts) != 2:
        return None
    address = _operand(parts[1], names)
    registers = [_operand(part.strip(), names) for part in parts[0].strip("{}").split(",")]
    if address is None or None in registers or len(registers) != int(match["count"] or 1):
        return None
    pointer = f"(void*){address}"
    if match["space"] == ".shared":
        pointer = f"__cvta_shared_to_generic({address})"
    does = "load" if match["does"] == "ld" else "store"
    values = ", ".join(map(str, registers))
    return f"smem_ptx_{does}<uint{match['bits']}_t>({pointer}, {values})"


def _operand(part: str, names: Mapping[str, str]) -> str | None:
    """Return an operand's C++: %0, [%0], [%0 + 16], a register, %%laneid, 16."""
    address = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(\d+)\s*)?\]", part)
    if address and address[1] in names:
        return f"((size_t){names[address[1]]} + {address[2] or 0})"
    if part in names:
        return names[part]
    if re.fullmatch(r"-?(?:0x[0-9a-fA-F]+|\d+)", part):
        return part
    return _REGISTERS.get(part.lstrip("%"))
