"""The parts of ``python -m torch_smem_gemm bench``: timing, the GPU's state, comparison."""
