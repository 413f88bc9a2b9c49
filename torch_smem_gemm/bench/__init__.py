"""What ``python -m torch_smem_gemm bench`` measures with: timing, the GPU's state, comparison."""
