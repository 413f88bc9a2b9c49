// What the plan expects of the device.
#pragma once

namespace smem::gemm::sm90 {

/// What an H200 does, fitted to a sweep over all tiles (bench/sweep.py); times in nanoseconds.
struct Model {
  double flop = 7610;        ///< of an SM in a nanosecond, held back by the power limit
  double row = 0.95;         ///< for one to load a row of 128 bytes from L2,
  double halves = 1.4;       ///< times as long where it lies in two lines of the cache,
  double pieces = 2.2;       ///< and where it cuts sectors, too
  double chain = 120;        ///< the four wgmmas of a step, one after the other however narrow
  double latency = 1240;     ///< of a load, which a tile's stages share
  double dram = 4480;        ///< bytes in a nanosecond, to all SMs
  double start = 3820;       ///< launch, first loads and end
  double cluster = 1210;     ///< more of it where blocks must meet others first and last
  double code = 22.9;        ///< for each sum a thread holds: longer code, that nothing has cached
  double piece = 266;        ///< between two pieces of work
  double rounded = 0.035;    ///< an element's way out, by a warpgroup: rounded, in boxes,
  double in_rows = 0.14;     ///< or in rows that begin anywhere,
  double partial = 0.2;      ///< as a float,
  double tf32_sum = 0.4;     ///< of products of floats,
  double element = 1.0;      ///< and one by one;
  double box = 79;           ///< a warp's copy, however narrow
  double activation = 0.18;  ///< of an element; relu is free
  double narrow = 1.5;       ///< times as long to multiply 64 columns at a time, two warpgroups,
  double narrow_floats = 1.4;    ///< of floats,
  double middling_floats = 1.2;  ///< and 128 columns of these
  double overlap = 0.79;         ///< the part of shorter work that hides behind longer
  double sum = 50;               ///< between two chunks of K in a piece,
  double sum_of_floats = 500;    ///< and of floats
  double second = 3550;          ///< a further launch
  double packing = 2108;         ///< bytes in a nanosecond, read and written
};

}  // namespace smem::gemm::sm90
