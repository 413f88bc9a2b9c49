// The emulator's side of sm90/api.h.
#include "cpu_emulator/sm90/api.h"

#include <cstring>

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/fault.h"
#include "cpu_emulator/sm90/call.h"
#include "cpu_emulator/sm90/store_async.h"

using namespace smem::cpu_emulator;  // NOLINT(google-build-using-namespace)
using sm90::Call;

namespace {

void tma_load(const Call& call, void* shared, const smem::CUtensorMap& map, sm90::BoxCoord at,
              void* barrier, unsigned blocks) {
  sm90::tma_load(call.block, call.offset(shared), map, at, call.offset(barrier), blocks, call.site);
}

Block& block_of_cluster(const Call& call, uint32_t rank) {
  if (rank >= call.block.cluster().size()) {
    fail(call.block, "out of bounds", "the cluster has no such block", call.site);
  }
  return call.block.cluster().block(rank);
}

}  // namespace

uint32_t smem_shared_address(const void* shared) {
  CALL;
  const uint32_t rank = call.block.cluster().rank_of(call.block);
  return rank << sm90::SharedWindow::RANK_SHIFT | call.offset(shared);
}

void* smem_shared_pointer(uint32_t address) {
  CALL;
  const uint32_t rank = address >> sm90::SharedWindow::RANK_SHIFT;
  if (rank != call.block.cluster().rank_of(call.block)) {
    fail(call.block, "out of bounds", "an address in another block's shared memory", call.site);
  }
  return call.state.window.at(address & sm90::SharedWindow::OFFSET_MASK);
}

void smem_speculative_load(const void* shared, void* value, size_t bytes) {
  CALL;
  call.speculative_load(shared, static_cast<uint32_t>(bytes));
  std::memcpy(value, shared, bytes);
}

uint32_t smem_cluster_rank() {
  return current_thread->block->cluster().rank_of(*current_thread->block);
}

const void* smem_map_shared_rank(const void* shared, uint32_t rank) {
  CALL;
  return block_of_cluster(call, rank).sm90().window.at(call.offset(shared));
}

void smem_store_async_in(uint32_t rank, void* shared, uint32_t value, void* barrier) {
  CALL;
  sm90::store_async_in(call.block, block_of_cluster(call, rank), call.offset(shared), value,
                       call.offset(barrier), call.site);
}

void smem_cluster_arrive() {
  CALL;
  call.block.arrive_in_cluster();
}

void smem_cluster_wait() {
  CALL;
  call.block.wait_for_cluster(call.site);
}

void smem_named_barrier(int number, unsigned threads, bool waits) {
  CALL;
  sm90::NamedBarrier& barrier = call.state.named_barriers[number];
  const uint64_t before = barrier.opened;
  Clock& released = barrier.released[before % 2];
  Observer* const observer = call.block.observer();
  if (observer) observer->release(current_thread->linear, released);
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.opened;
  }
  ++call.block.ring().progress;
  if (!waits) return;
  call.block.wait_until([&] { return barrier.opened != before; }, "barrier.cta.sync", call.site);
  if (observer) observer->acquire(current_thread->linear, released);
}

void smem_mbarrier_init(void* barrier, uint32_t count) {
  CALL;
  if (call.state.barriers.empty()) call.let_others_run(call.async.turns_before_init());
  call.state.barriers.init(call.offset(barrier), count, call.site);
}

void smem_fence_mbarrier_init() {
  CALL;
  call.state.barriers.publish();
}

void smem_mbarrier_arrive(void* barrier, uint32_t expected_bytes) {
  CALL;
  call.state.barriers.arrive(call.offset(barrier), expected_bytes, false, call.site);
  call.let_others_run(call.async.turns_after_arrival());
}

void smem_mbarrier_arrive_after_copies(void* barrier) {
  CALL;
  call.state.barriers.arrive_after_copies(call.offset(barrier), call.async, call.site);
  call.let_others_run(call.async.turns_after_arrival());
}

void smem_mbarrier_arrive_in(void* barrier, uint32_t rank) {
  CALL;
  Block& target = block_of_cluster(call, rank);
  target.sm90().barriers.arrive(call.offset(barrier), 0, &target != &call.block, call.site);
  call.let_others_run(call.async.turns_after_arrival());
}

void smem_mbarrier_wait(void* barrier, uint32_t parity) {
  CALL;
  call.state.barriers.wait(call.offset(barrier), parity, call.site);
}

void smem_fence_async_shared() {
  CALL;
  call.state.window.fence(current_thread->linear);
}

void smem_tma_load(void* shared, const smem::CUtensorMap* map, int x, int y, int z, void* barrier) {
  CALL;
  tma_load(call, shared, *map, {x, y, z}, barrier, 1u << call.block.cluster().rank_of(call.block));
}

void smem_tma_load_multicast(void* shared, const smem::CUtensorMap* map, int x, int y, int z,
                             void* barrier, unsigned blocks) {
  CALL;
  tma_load(call, shared, *map, {x, y, z}, barrier, blocks);
}

void smem_tma_store(const smem::CUtensorMap* map, int x, int y, int z, const void* shared) {
  CALL;
  call.state.stores.store(*map, {x, y, z}, call.offset(shared), call.site);
}

void smem_tma_store_commit() {
  CALL;
  call.state.stores.commit();
}

void smem_tma_store_wait_read(int groups_left) {
  CALL;
  call.state.stores.wait_read(static_cast<size_t>(groups_left));
}

void smem_wgmma(smem_wgmma_shape shape, float* accum, const uint32_t* a_registers, uint64_t a,
                uint64_t b, bool accumulate) {
  CALL;
  call.state.warpgroups.current().issue(
      {shape.format, shape.n, shape.a_is_mn_major, shape.b_is_mn_major}, accum, a_registers, a, b,
      accumulate, call.site);
}

void smem_wgmma_fence() {
  CALL;
  call.state.warpgroups.current().fence();
}

void smem_wgmma_commit() {
  CALL;
  call.state.warpgroups.current().commit(call.site);
}

void smem_wgmma_wait(int groups_left) {
  CALL;
  call.state.warpgroups.current().wait(static_cast<size_t>(groups_left), call.site);
}
