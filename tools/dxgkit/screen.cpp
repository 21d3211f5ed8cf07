#include "tools/dxgkit/screen.h"

#include <algorithm>
#include <array>
#include <functional>

#include "runtime/sync.h"
#include "thunks/client.h"
#include "tools/dxgkit/client.h"

namespace dxgkit::tool {
namespace {

Picture to_picture(const bus::ScreenImage& image) {
  return Picture{image.width, image.height, image.pixels};
}

/// Rows `first` up to `end` of the picture, as the screen wants them: blue first.
void write_rows(const Picture& picture, uint32_t first, uint32_t end, std::byte* to,
                uint32_t pitch) {
  for (uint32_t y = first; y < end; ++y) {
    const uint8_t* from = picture.pixels.data() + y * picture.pitch();
    std::byte* row = to + size_t{y} * pitch;
    for (size_t x = 0; x < picture.pitch(); x += kPixelBytes) {
      row[x] = std::byte{from[x + 2]};
      row[x + 1] = std::byte{from[x + 1]};
      row[x + 2] = std::byte{from[x]};
      row[x + 3] = std::byte{0xFF};
    }
  }
}

#define DXGKIT_CLIENT_TRY(call)                                             \
  do {                                                                      \
    if (auto done_ = (call); !done_) return std::unexpected(done_.error()); \
  } while (false)
#define DXGKIT_CLIENT_GET(name, call)                        \
  auto name##_or = (call);                                   \
  if (!name##_or) return std::unexpected(name##_or.error()); \
  auto& name = *name##_or

/// `shown` is called with the whole picture on the screen.
ClientResult<void> present(dxgk::Luid adapter, ClientApi api, const Picture& picture,
                           const std::function<void()>& shown) {
  DXGKIT_CLIENT_GET(device, ClientDevice::open(adapter, maker_of(api)));
  DXGKIT_CLIENT_GET(context, device.create_context(SGPU_UMD_NODE_COPY));
  DXGKIT_CLIENT_GET(fence, device.create_fence());
  DXGKIT_CLIENT_GET(staging,
                    device.create_surface(picture.width, picture.height, SGPU_UMD_PLACE_STAGING));
  std::array<ClientAllocation, 2> primaries;
  for (ClientAllocation& primary : primaries) {
    DXGKIT_CLIENT_GET(made, device.create_primary(picture.width, picture.height));
    primary = made;
  }
  DXGKIT_CLIENT_GET(bytes, device.lock(staging));
  std::fill_n(bytes, staging.size_bytes, std::byte{0});
  const auto upload = [&](const ClientAllocation& primary) {
    const uint32_t from = context.use(staging, ClientContext::Access::kRead);
    const uint32_t to = context.use(primary, ClientContext::Access::kWrite);
    context.blit({from, 0}, staging.pitch_bytes, {to, 0}, primary.pitch_bytes,
                 static_cast<uint32_t>(picture.pitch()), picture.height);
    return context.submit();
  };
  DXGKIT_CLIENT_TRY(upload(primaries[0]));
  uint64_t value = 0;
  DXGKIT_CLIENT_TRY(context.signal(fence, ++value));
  DXGKIT_CLIENT_TRY(device.wait(fence, value));
  DXGKIT_CLIENT_TRY(device.own_screen());
  DXGKIT_CLIENT_TRY(device.set_display_mode(primaries[0]));
  for (uint32_t frame = 1; frame <= kScreenFrames; ++frame) {
    const uint32_t first = picture.height * (frame - 1) / kScreenFrames;
    write_rows(picture, first, picture.height * frame / kScreenFrames, bytes, staging.pitch_bytes);
    const ClientAllocation& next = primaries[frame % primaries.size()];
    DXGKIT_CLIENT_TRY(upload(next));
    DXGKIT_CLIENT_TRY(context.flip(next, 1));
    // The context continues when the flip has taken effect; then the staging memory is free, too.
    DXGKIT_CLIENT_TRY(context.signal(fence, ++value));
    DXGKIT_CLIENT_TRY(device.wait(fence, value));
  }
  shown();
  DXGKIT_CLIENT_TRY(device.unlock(staging));
  DXGKIT_CLIENT_TRY(device.wait_idle());
  return device.close();
}

}  // namespace

ScreenShow show_on_screen(dxgk::System& system, dxgk::Luid adapter, bus::DeviceScreen& screen,
                          const Picture& picture, ClientApi api) {
  ScreenShow show;
  runtime::Runtime& runtime = runtime::Runtime::current();
  runtime::Mutex mutex;  // flips come from the screen's clock
  bool over = false;
  screen.on_flip([&](const bus::ScreenImage& image) {
    const runtime::MutexLock lock(mutex);
    if (over || image.width == 0) return;
    show.frames.push_back(to_picture(image));
    show.frame_times.push_back(runtime.now());
  });
  dxgk::Process& process = system.create_process("screen");
  {
    const thunks::ClientScope scope(system, process);
    const ClientResult<void> outcome = present(adapter, api, picture, [&] {
      const bus::ScreenImage image = screen.image();
      if (image.width != 0) show.last = to_picture(image);
      const runtime::MutexLock lock(mutex);
      over = true;
    });
    if (!outcome) show.error = outcome.error().text;
  }
  system.end_process(process);
  screen.on_flip(nullptr);
  return show;
}

bool same_colours(const Picture& a, const Picture& b) {
  if (a.width != b.width || a.height != b.height) return false;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    if (i % kPixelBytes != kPixelBytes - 1 && a.pixels[i] != b.pixels[i]) return false;
  }
  return true;
}

}  // namespace dxgkit::tool
