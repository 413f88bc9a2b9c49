"""Models that the demo, the examples and the benchmarks train."""
