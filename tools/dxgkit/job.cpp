#include "tools/dxgkit/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "runtime/interrupt.h"
#include "runtime/sync.h"
#include "thunks/client.h"
#include "tools/dxgkit/client.h"

namespace dxgkit::tool {
namespace {

/// Staging buffers per process and direction: how far the CPU may run ahead of the copy engine.
constexpr size_t kStagingBuffers = 4;

uint64_t staging_bytes(const Plan& plan) {
  uint64_t most = kPageBytes;
  for (const Tile& tile : plan.tiles)
    most = std::max(most, surface_bytes(tile.source.width, tile.source.height));
  return most;
}
/// A page beside the pixels for the checksum.
uint64_t read_back_bytes(const Plan& plan) {
  uint64_t most = 0;
  for (const Tile& tile : plan.tiles)
    most = std::max(most, surface_bytes(tile.result.width, tile.result.height));
  return most + kPageBytes;
}

/// When each process ended each stage.
struct StageEnds {
  std::array<std::array<runtime::TimeNs, kStages>, kProcesses> at{};
};

/// Runs in one client process, on its thread.
class ProcessJob {
 public:
  ProcessJob(runtime::Runtime& runtime, dxgk::Luid adapter, ClientApi api, const Plan& plan,
             const Picture& source, uint32_t process, bool whole, JobResult& result,
             StageEnds& ends, std::function<void()> step_done)
      : runtime_(runtime),
        adapter_(adapter),
        api_(api),
        plan_(plan),
        source_(source),
        process_(process),
        whole_(whole),
        result_(result),
        ends_(ends),
        step_done_(std::move(step_done)) {}

  ClientResult<void> run();

 private:
  ClientResult<void> run_all();
  struct TileWork {
    const Tile* tile = nullptr;
    size_t number = 0;  // in the plan
    ClientAllocation source, blurred, edges, result, checksum;
  };
  struct Objects {
    ClientContext render, copy;
    D3DKMT_HANDLE uploaded = 0, rendered = 0, read_back = 0;
    std::vector<ClientAllocation> up, down;
  };

  ClientResult<Objects> create_objects();
  ClientResult<void> create_surfaces(TileWork& work);
  ClientResult<void> upload(Objects& objects, const TileWork& work, uint64_t value);
  ClientResult<void> blur(Objects& objects, const TileWork& work, uint64_t value);
  ClientResult<void> find_edges(Objects& objects, const TileWork& work);
  ClientResult<void> finish_tile(Objects& objects, const TileWork& work, uint64_t index,
                                 uint64_t value);
  ClientResult<void> fetch(Objects& objects, const TileWork& work, uint64_t index);
  ClientResult<void> run_passes(Objects& objects);
  void end_stage(Stage stage) { ends_.at[process_][static_cast<size_t>(stage)] = runtime_.now(); }

  runtime::Runtime& runtime_;
  dxgk::Luid adapter_;
  ClientApi api_;
  const Plan& plan_;
  const Picture& source_;
  uint32_t process_;
  bool whole_;         // all tiles, not its share of them
  JobResult& result_;  // each process writes the parts of its own tiles only
  StageEnds& ends_;
  std::function<void()> step_done_;

  ClientDevice device_;
  std::vector<TileWork> work_;
};

/// An error if the user wants an end. The job is left where it is, as by a client that dies.
ClientResult<void> go_on() {
  if (runtime::interrupted()) return std::unexpected(ClientError{"interrupted"});
  return {};
}

// The early return of every step that can be refused.
#define DXGKIT_CLIENT_TRY(expression)                            \
  do {                                                           \
    auto client_try = (expression);                              \
    if (!client_try) return std::unexpected(client_try.error()); \
  } while (false)

ClientResult<ProcessJob::Objects> ProcessJob::create_objects() {
  ClientResult<ClientContext> render = device_.create_context(SGPU_UMD_NODE_3D);
  if (!render) return std::unexpected(render.error());
  ClientResult<ClientContext> copy = device_.create_context(SGPU_UMD_NODE_COPY);
  if (!copy) return std::unexpected(copy.error());
  Objects objects{.render = *render, .copy = *copy, .up = {}, .down = {}};
  for (D3DKMT_HANDLE* fence : {&objects.uploaded, &objects.rendered, &objects.read_back}) {
    ClientResult<D3DKMT_HANDLE> made = device_.create_fence();
    if (!made) return std::unexpected(made.error());
    *fence = *made;
  }
  for (size_t i = 0; i < kStagingBuffers; ++i) {
    ClientResult<ClientAllocation> up =
        device_.create_buffer(staging_bytes(plan_), SGPU_UMD_PLACE_STAGING);
    if (!up) return std::unexpected(up.error());
    objects.up.push_back(*up);
    ClientResult<ClientAllocation> down =
        device_.create_buffer(read_back_bytes(plan_), SGPU_UMD_PLACE_STAGING);
    if (!down) return std::unexpected(down.error());
    objects.down.push_back(*down);
  }
  return objects;
}

ClientResult<void> ProcessJob::create_surfaces(TileWork& work) {
  const auto create = [&](const Rect& rect, ClientAllocation& surface) -> ClientResult<void> {
    ClientResult<ClientAllocation> made =
        device_.create_surface(rect.width, rect.height, SGPU_UMD_PLACE_VRAM);
    if (!made) return std::unexpected(made.error());
    surface = *made;
    return {};
  };
  DXGKIT_CLIENT_TRY(create(work.tile->source, work.source));
  DXGKIT_CLIENT_TRY(create(work.tile->blurred, work.blurred));
  DXGKIT_CLIENT_TRY(create(work.tile->edges, work.edges));
  DXGKIT_CLIENT_TRY(create(work.tile->result, work.result));
  ClientResult<ClientAllocation> checksum = device_.create_buffer(kPageBytes, SGPU_UMD_PLACE_VRAM);
  if (!checksum) return std::unexpected(checksum.error());
  work.checksum = *checksum;
  return {};
}

/// Picture -> staging (CPU) -> video memory (copy node); `uploaded` reaches `value` then.
ClientResult<void> ProcessJob::upload(Objects& objects, const TileWork& work, uint64_t value) {
  const Rect& rect = work.tile->source;
  const ClientAllocation& staging = objects.up[(value - 1) % kStagingBuffers];
  // The copy that read this staging buffer last must be done before the CPU writes it again.
  if (value > kStagingBuffers)
    DXGKIT_CLIENT_TRY(device_.wait(objects.uploaded, value - kStagingBuffers));
  ClientResult<std::byte*> pixels = device_.lock(staging);
  if (!pixels) return std::unexpected(pixels.error());
  const size_t row_bytes = size_t{rect.width} * kPixelBytes;
  for (uint32_t y = 0; y < rect.height; ++y) {
    std::memcpy(*pixels + y * row_bytes,
                source_.pixels.data() + (size_t{rect.y} + y) * source_.pitch() +
                    size_t{rect.x} * kPixelBytes,
                row_bytes);
  }
  DXGKIT_CLIENT_TRY(device_.unlock(staging));

  const uint32_t from = objects.copy.use(staging, ClientContext::Access::kRead);
  const uint32_t to = objects.copy.use(work.source, ClientContext::Access::kWrite);
  objects.copy.blit({from, 0}, static_cast<uint32_t>(row_bytes), {to, 0}, work.source.pitch_bytes,
                    static_cast<uint32_t>(row_bytes), rect.height);
  DXGKIT_CLIENT_TRY(objects.copy.submit());
  return objects.copy.signal(objects.uploaded, value);
}

/// Waits on the GPU for the upload with `value`.
ClientResult<void> ProcessJob::blur(Objects& objects, const TileWork& work, uint64_t value) {
  const Tile& tile = *work.tile;
  DXGKIT_CLIENT_TRY(objects.render.wait(objects.uploaded, value));
  const uint32_t from = objects.render.use(work.source, ClientContext::Access::kRead);
  const uint32_t to = objects.render.use(work.blurred, ClientContext::Access::kWrite);
  objects.render.convolve({.source = {from, 0},
                           .destination = {to, 0},
                           .source_pitch = work.source.pitch_bytes,
                           .destination_pitch = work.blurred.pitch_bytes,
                           .source_width = tile.source.width,
                           .source_height = tile.source.height,
                           .output_x = tile.blurred.x - tile.source.x,
                           .output_y = tile.blurred.y - tile.source.y,
                           .output_width = tile.blurred.width,
                           .output_height = tile.blurred.height},
                          blur_filter());
  return objects.render.submit();
}

ClientResult<void> ProcessJob::find_edges(Objects& objects, const TileWork& work) {
  const Tile& tile = *work.tile;
  const uint32_t from = objects.render.use(work.blurred, ClientContext::Access::kRead);
  const uint32_t to = objects.render.use(work.edges, ClientContext::Access::kWrite);
  objects.render.convolve({.source = {from, 0},
                           .destination = {to, 0},
                           .source_pitch = work.blurred.pitch_bytes,
                           .destination_pitch = work.edges.pitch_bytes,
                           .source_width = tile.blurred.width,
                           .source_height = tile.blurred.height,
                           .output_x = tile.edges.x - tile.blurred.x,
                           .output_y = tile.edges.y - tile.blurred.y,
                           .output_width = tile.edges.width,
                           .output_height = tile.edges.height},
                          edge_filter());
  return objects.render.submit();
}

/// Downscale and checksum on the 3D node, then the copy node brings both to a read-back buffer.
/// `rendered` reaches `value`, `read_back` reaches index + 1.
ClientResult<void> ProcessJob::finish_tile(Objects& objects, const TileWork& work, uint64_t index,
                                           uint64_t value) {
  const Tile& tile = *work.tile;
  const uint32_t edges = objects.render.use(work.edges, ClientContext::Access::kRead);
  const uint32_t result = objects.render.use(work.result, ClientContext::Access::kWrite);
  const uint32_t sum = objects.render.use(work.checksum, ClientContext::Access::kWrite);
  objects.render.downscale({edges, 0}, work.edges.pitch_bytes, {result, 0}, work.result.pitch_bytes,
                           tile.edges.width, tile.edges.height);
  objects.render.checksum({result, 0}, work.result.pitch_bytes, tile.result.width * kPixelBytes,
                          tile.result.height, {sum, 0});
  DXGKIT_CLIENT_TRY(objects.render.submit());
  DXGKIT_CLIENT_TRY(objects.render.signal(objects.rendered, value));

  DXGKIT_CLIENT_TRY(objects.copy.wait(objects.rendered, value));
  const uint32_t from = objects.copy.use(work.result, ClientContext::Access::kRead);
  const uint32_t sum_from = objects.copy.use(work.checksum, ClientContext::Access::kRead);
  const uint32_t to =
      objects.copy.use(objects.down[index % kStagingBuffers], ClientContext::Access::kWrite);
  objects.copy.copy({sum_from, 0}, {to, 0}, sizeof(uint64_t));
  objects.copy.copy({from, 0}, {to, static_cast<uint32_t>(kPageBytes)},
                    uint64_t{work.result.pitch_bytes} * tile.result.height);
  DXGKIT_CLIENT_TRY(objects.copy.submit());
  return objects.copy.signal(objects.read_back, index + 1);
}

/// Read-back buffer -> the result.
ClientResult<void> ProcessJob::fetch(Objects& objects, const TileWork& work, uint64_t index) {
  DXGKIT_CLIENT_TRY(device_.wait(objects.read_back, index + 1));
  const ClientAllocation& buffer = objects.down[index % kStagingBuffers];
  ClientResult<std::byte*> bytes = device_.lock(buffer);
  if (!bytes) return std::unexpected(bytes.error());
  std::memcpy(&result_.checksums[work.number], *bytes, sizeof(uint64_t));
  const Rect& rect = work.tile->result;
  for (uint32_t y = 0; y < rect.height; ++y) {
    std::memcpy(result_.picture.pixels.data() + (size_t{rect.y} + y) * result_.picture.pitch() +
                    size_t{rect.x} * kPixelBytes,
                *bytes + kPageBytes + size_t{y} * work.result.pitch_bytes,
                size_t{rect.width} * kPixelBytes);
  }
  DXGKIT_CLIENT_TRY(device_.unlock(buffer));
  step_done_();
  return {};
}

ClientResult<void> ProcessJob::run_passes(Objects& objects) {
  const uint64_t count = work_.size();
  uint64_t rendered = 0;
  for (uint64_t i = 0; i < count; ++i) {
    DXGKIT_CLIENT_TRY(go_on());
    DXGKIT_CLIENT_TRY(upload(objects, work_[i], i + 1));
    DXGKIT_CLIENT_TRY(blur(objects, work_[i], i + 1));
    step_done_();
  }
  DXGKIT_CLIENT_TRY(objects.render.signal(objects.rendered, ++rendered));
  DXGKIT_CLIENT_TRY(device_.wait(objects.uploaded, count));
  end_stage(Stage::kUpload);
  DXGKIT_CLIENT_TRY(device_.wait(objects.rendered, rendered));
  end_stage(Stage::kBlur);

  for (const TileWork& work : work_) {
    DXGKIT_CLIENT_TRY(go_on());
    DXGKIT_CLIENT_TRY(find_edges(objects, work));
  }
  DXGKIT_CLIENT_TRY(objects.render.signal(objects.rendered, ++rendered));
  DXGKIT_CLIENT_TRY(device_.wait(objects.rendered, rendered));
  for (uint64_t i = 0; i < count; ++i) step_done_();
  end_stage(Stage::kEdges);

  for (uint64_t i = 0; i < count; ++i) {
    DXGKIT_CLIENT_TRY(go_on());
    if (i >= kStagingBuffers)
      DXGKIT_CLIENT_TRY(fetch(objects, work_[i - kStagingBuffers], i - kStagingBuffers));
    DXGKIT_CLIENT_TRY(finish_tile(objects, work_[i], i, ++rendered));
  }
  for (uint64_t i = count - std::min<uint64_t>(count, kStagingBuffers); i < count; ++i)
    DXGKIT_CLIENT_TRY(fetch(objects, work_[i], i));
  end_stage(Stage::kDownscale);
  return {};
}

ClientResult<void> ProcessJob::run() {
  ClientResult<void> done = run_all();
  if (done.has_value()) return done;
  if (const std::string why = device_.why_lost(); !why.empty())
    done.error().text += fmt::format(" ({})", why);
  return done;
}

ClientResult<void> ProcessJob::run_all() {
  for (size_t i = whole_ ? 0 : process_; i < plan_.tiles.size(); i += whole_ ? 1 : kProcesses) {
    TileWork work;
    work.tile = &plan_.tiles[i];
    work.number = i;
    work_.push_back(work);
  }
  ClientResult<ClientDevice> device = ClientDevice::open(adapter_, api_);
  if (!device) return std::unexpected(device.error());
  device_ = std::move(*device);
  ClientResult<Objects> objects = create_objects();
  if (!objects) return std::unexpected(objects.error());
  for (TileWork& work : work_) {
    DXGKIT_CLIENT_TRY(go_on());
    DXGKIT_CLIENT_TRY(create_surfaces(work));
  }
  DXGKIT_CLIENT_TRY(run_passes(*objects));
  DXGKIT_CLIENT_TRY(device_.wait_idle());
  return device_.close();
}

#undef DXGKIT_CLIENT_TRY

}  // namespace

namespace {

JobResult blank_result(const Plan& plan) {
  JobResult result;
  result.picture.width = (plan.width + 1) / 2;
  result.picture.height = (plan.height + 1) / 2;
  result.picture.pixels.resize(result.picture.size_bytes());
  result.checksums.resize(plan.tiles.size());
  return result;
}

/// One process per element of `results`, which may name one result several times.
void run_processes(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                   ClientApi api, const Plan& plan, const Picture& source, bool whole,
                   const std::array<JobResult*, kProcesses>& results, const Progress& progress,
                   const std::string& who = "client") {
  // Three steps per tile: blurred is queued, edges are there, it is read back.
  const uint64_t steps = plan.tiles.size() * 3 * (whole ? kProcesses : 1);
  runtime::Mutex mutex;  // for `done` and the callback
  uint64_t done = 0;
  const auto step_done = [&] {
    runtime::MutexLock lock(mutex);
    ++done;
    if (progress) progress(done, steps);
  };

  StageEnds ends;
  std::array<std::string, kProcesses> errors;
  const runtime::TimeNs began = runtime.now();
  std::vector<std::unique_ptr<runtime::Thread>> threads;
  threads.reserve(kProcesses);
  for (uint32_t i = 0; i < kProcesses; ++i) {
    threads.push_back(runtime.spawn(fmt::format("{} {}", who, i + 1), [&, i] {
      dxgk::Process& process = system.create_process(fmt::format("{} {}", who, i + 1));
      {
        const thunks::ClientScope scope(system, process);
        ProcessJob job(runtime, adapter, api, plan, source, i, whole, *results[i], ends, step_done);
        if (const ClientResult<void> outcome = job.run(); !outcome) {
          errors[i] = fmt::format("{} {}: {}", who, i + 1, outcome.error().text);
        }
      }
      system.end_process(process);
    }));
  }
  for (const std::unique_ptr<runtime::Thread>& thread : threads) thread->join();
  for (uint32_t i = 0; i < kProcesses; ++i) {
    JobResult& result = *results[i];
    result.total_ns = runtime.now() - began;
    if (result.error.empty()) result.error = errors[i];
    runtime::TimeNs previous = began;
    for (size_t stage = 0; stage < kStages; ++stage) {
      runtime::TimeNs end = previous;
      for (uint32_t k = 0; k < kProcesses; ++k) {
        if (!whole || k == i) end = std::max(end, ends.at[k][stage]);
      }
      result.stage_ns[stage] = end - previous;
      previous = end;
    }
  }
}

}  // namespace

JobResult run_job(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                  const Plan& plan, const Picture& source, const Progress& progress,
                  const std::string& who, ClientApi api) {
  JobResult result = blank_result(plan);
  std::array<JobResult*, kProcesses> results;
  results.fill(&result);
  run_processes(runtime, system, adapter, api, plan, source, /*whole=*/false, results, progress,
                who);
  return result;
}

std::vector<JobResult> run_whole_jobs(runtime::Runtime& runtime, dxgk::System& system,
                                      dxgk::Luid adapter, const Plan& plan, const Picture& source,
                                      const Progress& progress, ClientApi api) {
  std::vector<JobResult> all;
  for (uint32_t i = 0; i < kProcesses; ++i) all.push_back(blank_result(plan));
  std::array<JobResult*, kProcesses> results{};
  for (uint32_t i = 0; i < kProcesses; ++i) results[i] = &all[i];
  run_processes(runtime, system, adapter, api, plan, source, /*whole=*/true, results, progress);
  return all;
}

bool says_removed(const std::string& error) {
  return error.contains("STATUS_DEVICE_REMOVED") || error.contains("D3DDDIERR_DEVICEREMOVED");
}

uint64_t job_system_bytes(const Plan& plan) {
  return plan.working_set_bytes +
         kProcesses * kStagingBuffers * (staging_bytes(plan) + read_back_bytes(plan));
}

uint64_t page_table_bytes(const Plan& plan, MemoryModel model) {
  if (model != MemoryModel::kFourLevels) return 0;  // in system memory
  constexpr uint64_t kLeafCoverBytes = uint64_t{2} << 20;
  constexpr uint64_t kUpperTables = 3;
  // Each process maps all at most. One more leaf, because an allocation need not begin with one.
  const uint64_t leaves = job_system_bytes(plan) / kLeafCoverBytes + 2;
  return kProcesses * (kUpperTables + leaves) * kPageBytes;
}

}  // namespace dxgkit::tool
