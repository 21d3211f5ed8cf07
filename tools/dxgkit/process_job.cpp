#include "tools/dxgkit/process_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/interrupt.h"
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

/// Runs in one client process, on its thread.
class ProcessJob {
 public:
  explicit ProcessJob(const ProcessWork& work) : job_(work), plan_(*work.plan) {}

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

  const ProcessWork& job_;
  const Plan& plan_;
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
                job_.source + ((size_t{rect.y} + y) * plan_.width + rect.x) * kPixelBytes,
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
  std::memcpy(&job_.checksums[work.number], *bytes, sizeof(uint64_t));
  const Rect& rect = work.tile->result;
  const size_t width = result_width(plan_);
  for (uint32_t y = 0; y < rect.height; ++y) {
    std::memcpy(job_.result + ((size_t{rect.y} + y) * width + rect.x) * kPixelBytes,
                *bytes + kPageBytes + size_t{y} * work.result.pitch_bytes,
                size_t{rect.width} * kPixelBytes);
  }
  DXGKIT_CLIENT_TRY(device_.unlock(buffer));
  job_.step_done();
  return {};
}

ClientResult<void> ProcessJob::run_passes(Objects& objects) {
  const uint64_t count = work_.size();
  uint64_t rendered = 0;
  for (uint64_t i = 0; i < count; ++i) {
    DXGKIT_CLIENT_TRY(go_on());
    DXGKIT_CLIENT_TRY(upload(objects, work_[i], i + 1));
    DXGKIT_CLIENT_TRY(blur(objects, work_[i], i + 1));
    job_.step_done();
  }
  DXGKIT_CLIENT_TRY(objects.render.signal(objects.rendered, ++rendered));
  DXGKIT_CLIENT_TRY(device_.wait(objects.uploaded, count));
  job_.stage_done(Stage::kUpload);
  DXGKIT_CLIENT_TRY(device_.wait(objects.rendered, rendered));
  job_.stage_done(Stage::kBlur);

  for (const TileWork& work : work_) {
    DXGKIT_CLIENT_TRY(go_on());
    DXGKIT_CLIENT_TRY(find_edges(objects, work));
  }
  DXGKIT_CLIENT_TRY(objects.render.signal(objects.rendered, ++rendered));
  DXGKIT_CLIENT_TRY(device_.wait(objects.rendered, rendered));
  for (uint64_t i = 0; i < count; ++i) job_.step_done();
  job_.stage_done(Stage::kEdges);

  for (uint64_t i = 0; i < count; ++i) {
    DXGKIT_CLIENT_TRY(go_on());
    if (i >= kStagingBuffers)
      DXGKIT_CLIENT_TRY(fetch(objects, work_[i - kStagingBuffers], i - kStagingBuffers));
    DXGKIT_CLIENT_TRY(finish_tile(objects, work_[i], i, ++rendered));
  }
  for (uint64_t i = count - std::min<uint64_t>(count, kStagingBuffers); i < count; ++i)
    DXGKIT_CLIENT_TRY(fetch(objects, work_[i], i));
  job_.stage_done(Stage::kDownscale);
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
  const size_t stride = job_.whole ? 1 : kProcesses;
  for (size_t i = job_.whole ? 0 : job_.process; i < plan_.tiles.size(); i += stride) {
    TileWork work;
    work.tile = &plan_.tiles[i];
    work.number = i;
    work_.push_back(work);
  }
  ClientResult<ClientDevice> device = ClientDevice::open(job_.adapter, job_.calls);
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

ClientResult<void> run_process_job(const ProcessWork& work) { return ProcessJob(work).run(); }

uint64_t staging_bytes_of_process(const Plan& plan) {
  return kStagingBuffers * (staging_bytes(plan) + read_back_bytes(plan));
}

}  // namespace dxgkit::tool
