"""The flags of g++ for kernels, which the emulator observes by the calls that g++ puts in.

They are those of users' kernels (compiler.py) and of this package's own (build_tools/extension.py).
"""

# What the callbacks see should be what a GPU's compiler leaves: accesses that the source repeats
# are made once (-O2), but none is split, joined or moved to another line's instruction, and the
# code of a line stays in one place, in the order of the source.
INSTRUMENTED = [
    "-O2",
    # Version 5 of DWARF makes binutils 2.40 name the wrong file.
    "-gdwarf-4",
    "-fno-gnu-unique",
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "-fsanitize-coverage=trace-pc",
    # A float4 is one access.
    "-fno-tree-sra",
    "-fno-ipa-sra",
    "-fno-tree-vectorize",
    "-fno-store-merging",
    "-fno-tree-loop-distribute-patterns",
    # Lanes that diverged meet at the lowest address.
    "-fno-reorder-blocks",
    "-fno-reorder-blocks-and-partition",
    "-fno-thread-jumps",
    "-fno-crossjumping",
    "-fno-tree-tail-merge",
    "-fno-ipa-icf",
    "-fno-code-hoisting",
    "-fno-split-loops",
    "-fno-unswitch-loops",
    "-fno-version-loops-for-strides",
    "-fno-partial-inlining",
    "-fno-ipa-cp",
    # What one thread does not do, another may; and Python sets variables.
    "-fno-ipa-reference",
    "-fno-ipa-reference-addressable",
    "-fno-ipa-pure-const",
    "-fno-finite-loops",
    "-fno-extern-tls-init",
    # As nvcc: a float's address may be taken for a float4's.
    "-fno-strict-aliasing",
    "-fno-math-errno",
]
