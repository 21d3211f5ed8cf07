// A GL program's messages: what a session does with right ones, and how it ends with wrong ones.
#include "tools/dxgkit/gl/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "tools/dxgkit/gl/frame.h"
#include "tools/dxgkit/gl/session_rig.h"

namespace dxgkit::gl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kBuffer = 0, kTexture = 2;

ResourceDescription picture(uint32_t handle, uint32_t width, uint32_t height) {
  return {.handle = handle,
          .target = kTexture,
          .format = 2,
          .bind = 10,
          .width = width,
          .height = height,
          .depth = 1,
          .array_size = 1,
          .data_bytes = width * height * 4};
}
ResourceDescription buffer(uint32_t handle, uint32_t bytes) {
  return {.handle = handle,
          .target = kBuffer,
          .format = 64,
          .bind = 16,
          .width = bytes,
          .height = 1,
          .depth = 1,
          .array_size = 1,
          .data_bytes = bytes};
}
uint32_t head(uint32_t command, uint32_t object, uint32_t length) {
  return command | object << 8 | length << 16;
}

/// Runs a program that begins rightly, and returns how its connection ends.
std::string ending(SessionRig& rig) {
  const auto end = rig.session.run();
  EXPECT_EQ(rig.state.misuse, "");
  return end.value_or("");
}

Words words_of(std::span<const std::byte> bytes) {
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

std::span<std::byte> map(const vfiouser::Descriptor& fd, size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(at, MAP_FAILED);
  return {static_cast<std::byte*>(at), bytes};
}

TEST(GlSession, GreetsAndTellsWhatTheRendererCan) {
  SessionRig rig;
  rig.channel.send_greeting("gears");
  rig.channel.send(Command::kGetCaps2, Words{});
  rig.channel.send(Command::kGetCaps, Words{});
  EXPECT_EQ(ending(rig), "");
  EXPECT_EQ(rig.session.program_name(), "gears");
  const auto output = rig.channel.take_output();
  // Ping, the answer to the wait, the version; then the capability sets with their lengths in
  // bytes and one more.
  const Words words = words_of(std::span(output).first(8 * 4));
  EXPECT_THAT(words, ElementsAre(0, 10, 1, 7, 0, 1, 11, 2));
  ASSERT_EQ(output.size(), 8U * 4 + 8 + 616 + 8 + 308);
  EXPECT_THAT(words_of(std::span(output).subspan(32, 8)), ElementsAre(617, 2));
  EXPECT_THAT(words_of(std::span(output).subspan(40 + 616, 8)), ElementsAre(309, 1));
}

TEST(GlSession, LeavesOutACapabilitySetThatTheRendererHasNot) {
  SessionRig rig;
  rig.state.capability_bytes = 0;
  rig.channel.send_greeting();
  rig.channel.send(Command::kGetCaps2, Words{});
  EXPECT_EQ(ending(rig), "");
  EXPECT_EQ(rig.channel.take_output().size(), 8U * 4);
  rig.channel.send(Command::kGetCaps, Words{});
  EXPECT_EQ(ending(rig), "the renderer has no capability set 1");
}

TEST(GlSession, MovesPixelsThroughSharedMemory) {
  SessionRig rig;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(picture(7, 8, 4)));
  EXPECT_EQ(ending(rig), "");
  ASSERT_EQ(rig.channel.descriptors().size(), 1U);
  const auto pixels = map(rig.channel.descriptors()[0], 128);
  std::ranges::fill(pixels, std::byte{0x55});
  rig.channel.take_output();

  // All of it, and two of its rows: without gaps.
  rig.channel.send(20, Command::kTransferPut2,
                   Words{7, 0, 0, 0, 0, 8, 4, 1, 128, 0});  // with the pixels counted, as Mesa does
  rig.channel.send(Command::kTransferGet2, Words{7, 0, 0, 1, 0, 8, 2, 1, 64, 32});
  rig.channel.send(Command::kResourceBusyWait, Words{7, 1});
  EXPECT_EQ(ending(rig), "");
  EXPECT_THAT(rig.state.calls,
              ElementsAre("create 100 of 128", "write 100[0+128]", "to host 100[0+128]",
                          "from host 100[32+64]", "read 100[32+64]", "wait"));
  EXPECT_EQ(pixels[31], std::byte{0x55});
  EXPECT_EQ(pixels[32], std::byte{0xA0});
  EXPECT_EQ(pixels[95], std::byte{0xA0});
  EXPECT_EQ(pixels[96], std::byte{0x55});
  EXPECT_THAT(words_of(rig.channel.take_output()), ElementsAre(1, 7, 0));
}

TEST(GlSession, KeepsTheLastFrameThatAProgramShows) {
  SessionRig rig;
  ResourceDescription window = picture(7, 8, 4);
  window.bind = 0x8A;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(window));
  rig.channel.send(Command::kResourceCreate2, encode(picture(8, 8, 4)));  // in no window
  // More bytes than there are, as the window's rows are longer.
  for (const uint32_t handle : {7U, 7U, 8U})
    rig.channel.send(Command::kTransferGet2, Words{handle, 0, 0, 0, 0, 8, 4, 1, 256, 0});
  rig.channel.send(Command::kResourceUnref, Words{7});
  FrameLog log;
  rig.session.on_frame([&](const Frame& frame, uint64_t number) {
    log.add(frame, number, static_cast<runtime::TimeNs>(number) * 10);
  });
  EXPECT_EQ(ending(rig), "");
  const std::vector<KeptFrame> kept = log.take();
  ASSERT_EQ(kept.size(), 2U);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(kept[i].number, i + 1);
    EXPECT_EQ(kept[i].time, static_cast<runtime::TimeNs>(i + 1) * 10);
    EXPECT_EQ(kept[i].picture.width, 8U);
    EXPECT_EQ(kept[i].picture.height, 4U);
    EXPECT_THAT(std::span(kept[i].picture.pixels).last(4), ElementsAre(0xA0, 0xA0, 0xA0, 0xFF));
  }
  EXPECT_TRUE(log.take().empty());
  EXPECT_EQ(rig.session.counts().frames, 2U);
  ASSERT_TRUE(rig.session.frame().has_value());
  EXPECT_EQ(rig.session.frame()->resource, window);
  EXPECT_EQ(rig.session.frame()->memory->bytes()[127], std::byte{0xA0});
}

/// Red, green, blue in both orders; a large window shrinks; the oldest frame goes first.
TEST(GlFrame, IsAPictureOfBoundedSize) {
  constexpr uint32_t kWidth = FrameLog::kSideMost * 2 + 1, kHeight = 3;
  std::shared_ptr<SharedMemory> memory = SharedMemory::create(kWidth * kHeight * 4);
  ASSERT_NE(memory, nullptr);
  for (uint32_t i = 0; i < kWidth * kHeight; ++i) {
    memory->bytes()[i * 4] = static_cast<std::byte>(i);
    memory->bytes()[i * 4 + 1] = static_cast<std::byte>(i >> 8);
    memory->bytes()[i * 4 + 2] = std::byte{0x77};
  }
  Frame frame{.resource = picture(7, kWidth, kHeight), .memory = memory};
  const auto whole = picture_of(frame, tool::kPictureSideMax);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->width, kWidth);
  EXPECT_THAT(std::span(whole->pixels).subspan(4 * 300, 4), ElementsAre(0x77, 1, 44, 0xFF));
  frame.resource.format = 67;
  const auto other = picture_of(frame, tool::kPictureSideMax);
  ASSERT_TRUE(other.has_value());
  EXPECT_THAT(std::span(other->pixels).subspan(4 * 300, 4), ElementsAre(44, 1, 0x77, 0xFF));
  // Each third pixel of each third row.
  const auto small = picture_of(frame, FrameLog::kSideMost);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->width, 427U);
  EXPECT_EQ(small->height, 1U);
  EXPECT_THAT(std::span(small->pixels).subspan(4 * 100, 4), ElementsAre(44, 1, 0x77, 0xFF));

  FrameLog log;
  for (uint64_t number = 1; number <= FrameLog::kKept + 2; ++number) log.add(frame, number, 0);
  const auto kept = log.take();
  ASSERT_EQ(kept.size(), FrameLog::kKept);
  EXPECT_EQ(kept.front().number, 3U);
  EXPECT_EQ(kept.back().number, FrameLog::kKept + 2);
  EXPECT_EQ(kept.back().width, kWidth);

  ++frame.resource.height;  // more than there is
  EXPECT_EQ(picture_of(frame, 10), std::nullopt);
  frame.resource.height = kHeight;
  frame.resource.format = 64;
  EXPECT_EQ(picture_of(frame, 10), std::nullopt);
}

TEST(GlSession, KeepsThePixelsBetweenTheRowsOfATransfer) {
  SessionRig rig;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(picture(7, 8, 4)));
  // Half of each row: where the rows end is the renderer's business.
  rig.channel.send(Command::kTransferGet2, Words{7, 0, 0, 1, 0, 4, 2, 1, 32, 32});
  EXPECT_EQ(ending(rig), "");
  EXPECT_THAT(rig.state.calls, ElementsAre("create 100 of 128", "write 100[32+96]",
                                           "from host 100[32+32]", "read 100[32+96]"));
}

TEST(GlSession, NamesTheBackendsResourcesInStreams) {
  SessionRig rig;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(picture(7, 8, 4)));
  rig.channel.send(Command::kResourceCreate2, encode(buffer(9, 256)));
  rig.channel.send(Command::kSubmitCmd,
                   Words{head(1, 8, 5),   1,  7, 2, 0,  0,     // a surface of 7
                         head(6, 0, 6),   12, 0, 9, 12, 0, 0,  // vertices in 9
                         head(43, 0, 13), 9,  0, 0, 0,  0, 16, 0, 0, 32, 1, 1, 16, 1});
  EXPECT_EQ(ending(rig), "");
  // The part of the buffer that the transfer reads comes first.
  EXPECT_THAT(rig.state.calls,
              ElementsAre("create 100 of 128", "create 101 of 256", "write 101[16+32]",
                          "submit 27 in 3: 2=100w 9=101r 14=101w"));
}

TEST(GlSession, BringsResultsOfQueriesOnceTheyAreThere) {
  SessionRig rig;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(buffer(5, 16)));
  rig.channel.send(Command::kSubmitCmd, Words{head(1, 9, 4), 3, 1, 0, 5});
  rig.channel.send(Command::kSubmitCmd, Words{head(21, 0, 2), 3, 0});
  rig.state.results[100] = std::byte{0x77};
  rig.state.busy = true;
  rig.channel.send(Command::kResourceBusyWait, Words{5, 0});
  EXPECT_EQ(ending(rig), "");
  const auto bytes = map(rig.channel.descriptors()[0], 16);
  EXPECT_EQ(bytes[0], std::byte{0});
  const Words replies = words_of(rig.channel.take_output());
  EXPECT_EQ(replies.back(), 1U);  // busy
  rig.channel.send(Command::kResourceBusyWait, Words{5, 1});
  EXPECT_EQ(ending(rig), "");
  EXPECT_EQ(bytes[0], std::byte{0x77});
  EXPECT_EQ(words_of(rig.channel.take_output()).back(), 0U);
  EXPECT_THAT(rig.state.calls,
              ElementsAre("create 100 of 16", "submit 5 in 1: 4=100w", "submit 3 in 1: also 100",
                          "ask", "wait", "read 100[0+16]"));
}

TEST(GlSession, GivesUpResources) {
  SessionRig rig({.resources = 1, .shared_bytes = 300});
  rig.channel.send_greeting();
  for (uint32_t i = 0; i < 3; ++i) {
    rig.channel.send(Command::kResourceCreate2, encode(picture(7, 8, 4)));
    rig.channel.send(Command::kResourceUnref, Words{7});
  }
  rig.channel.send(Command::kResourceUnref, Words{7});
  EXPECT_EQ(ending(rig), "it named resource 7, which it does not have");
  EXPECT_TRUE(rig.state.backings.empty());
}

TEST(GlSession, LimitsWhatAProgramHas) {
  SessionRig few({.resources = 1});
  SessionRig small({.shared_bytes = 200});
  for (SessionRig* const rig : {&few, &small}) {
    rig->channel.send_greeting();
    rig->channel.send(Command::kResourceCreate2, encode(picture(7, 8, 4)));
    rig->channel.send(Command::kResourceCreate2, encode(picture(8, 8, 4)));
  }
  EXPECT_EQ(ending(few), "it has more than 1 resource");
  EXPECT_EQ(ending(small), "its resources have more than 200 bytes of shared memory");
}

TEST(GlSession, SendsNoMemoryOfAResourceThatHasNone) {
  SessionRig rig;
  ResourceDescription samples = picture(7, 8, 4);
  samples.samples = 4;
  samples.data_bytes = 0;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(samples));
  rig.channel.send(Command::kTransferGet2, Words{7, 0, 0, 0, 0, 8, 4, 1, 0, 0});
  EXPECT_EQ(ending(rig), "it asked for a transfer of resource 7, which has no shared memory");
  EXPECT_TRUE(rig.channel.descriptors().empty());
}

TEST(GlSession, SharesMemoryThatNobodyCanMakeShorter) {
  SessionRig rig;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(buffer(5, 8192)));
  EXPECT_EQ(ending(rig), "");
  EXPECT_NE(ftruncate(rig.channel.descriptors()[0].get(), 0), 0);
}

TEST(GlSession, EndsWhenTheBackendRefuses) {
  SessionRig rig;
  rig.state.refuse_create = "there is no memory";
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(buffer(5, 16)));
  EXPECT_EQ(ending(rig), "there is no memory");
}

/// One wrong message after a right beginning, with resource 7 of 8 x 4 pixels.
struct Wrong {
  const char* what;
  uint32_t length;
  Command command;
  Words payload;
  const char* says;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.what; }

class GlSessionWrong : public ::testing::TestWithParam<Wrong> {};

TEST_P(GlSessionWrong, EndsTheConnectionWithALine) {
  const Wrong& wrong = GetParam();
  SessionRig rig;
  rig.channel.send_greeting();
  rig.channel.send(Command::kResourceCreate2, encode(picture(7, 8, 4)));
  rig.channel.send(wrong.length, wrong.command, wrong.payload);
  rig.channel.send(Command::kSubmitCmd, Words{head(0, 0, 0)});
  EXPECT_THAT(ending(rig), HasSubstr(wrong.says)) << wrong.what;
  EXPECT_THAT(rig.state.calls, ElementsAre("create 100 of 128")) << wrong.what;
}

ResourceDescription with_handle(ResourceDescription resource, uint32_t handle) {
  resource.handle = handle;
  return resource;
}
Words payload_of(const ResourceDescription& resource) {
  const auto words = encode(resource);
  return {words.begin(), words.end()};
}

constexpr uint32_t kMax = UINT32_MAX;
INSTANTIATE_TEST_SUITE_P(
    All, GlSessionWrong,
    ::testing::Values(
        Wrong{"unknown", 0, Command{99}, {}, "it sent command 99, which is unknown"},
        Wrong{"version 0", 10, Command::kResourceCreate, Words(10), "version 0 of the protocol"},
        Wrong{"length", 3, Command::kResourceUnref, Words(3), "RESOURCE_UNREF with 3 dwords"},
        Wrong{"long name", 1U << 30, Command::kCreateRenderer, {}, "a name of"},
        Wrong{"long stream", kMax, Command::kSubmitCmd, {}, "a command stream of"},
        Wrong{"short transfer", 9, Command::kTransferPut2, Words(9), "TRANSFER_PUT2 with 9"},
        Wrong{"no end", 100, Command::kSubmitCmd, Words(2), "ends in a message"},
        Wrong{"second renderer", 0, Command::kCreateRenderer, {}, "a second renderer"},
        Wrong{"old version", 1, Command::kProtocolVersion, {1}, "version 1 of the protocol"},
        Wrong{"twice", 11, Command::kResourceCreate2, payload_of(picture(7, 1, 1)), "twice"},
        Wrong{"number 0", 11, Command::kResourceCreate2,
              payload_of(with_handle(picture(1, 1, 1), 0)), "the number 0"},
        Wrong{"no width", 11, Command::kResourceCreate2, payload_of(picture(8, 0, 4)),
              "an impossible size"},
        Wrong{"much memory", 11, Command::kResourceCreate2, payload_of(buffer(8, kMax)),
              "an impossible size"},
        Wrong{"foreign",
              10,
              Command::kTransferGet2,
              {8, 0, 0, 0, 0, 8, 4, 1, 128, 0},
              "named resource 8"},
        Wrong{"behind the end",
              10,
              Command::kTransferGet2,
              {7, 0, 0, 0, 0, 8, 4, 1, 128, 129},
              "a transfer outside resource 7"},
        Wrong{"wraps",
              10,
              Command::kTransferGet2,
              {7, 0, 0, 0, 0, 8, 4, 1, 128, kMax - 3},
              "a transfer outside resource 7"},
        Wrong{"no such level",
              10,
              Command::kTransferPut2,
              {7, 1, 0, 0, 0, 8, 4, 1, 128, 0},
              "a transfer outside resource 7"},
        Wrong{"empty box",
              10,
              Command::kTransferGet2,
              {7, 0, 0, 0, 0, 0, 4, 1, 128, 0},
              "a transfer of nothing"},
        Wrong{"far box",
              10,
              Command::kTransferGet2,
              {7, 0, kMax, 0, 0, 8, 4, 1, 128, 0},
              "an impossible box"},
        Wrong{"wait flags", 2, Command::kResourceBusyWait, {7, 2}, "unknown flags"},
        Wrong{"wait for nothing", 2, Command::kResourceBusyWait, {9, 1}, "named resource 9"},
        Wrong{"stream ends early", 1, Command::kSubmitCmd, {head(7, 0, 8)}, "does not end"},
        Wrong{"stream of nothing",
              1,
              Command::kSubmitCmd,
              {head(200, 0, 0)},
              "a command 200, which is unknown"},
        Wrong{"stream with blob", 1, Command::kSubmitCmd, {head(48, 0, 0)}, "blob resources"},
        Wrong{"stream names another's",
              2,
              Command::kSubmitCmd,
              {head(11, 0, 1), 4},
              "named resource 4"},
        Wrong{"short blit", 5, Command::kSubmitCmd, {head(16, 0, 4), 0, 0, 0, 7}, "wrong length"},
        Wrong{"short vertices", 3, Command::kSubmitCmd, {head(6, 0, 2), 0, 0}, "wrong length"},
        Wrong{"stream transfers outside",
              14,
              Command::kSubmitCmd,
              {head(43, 0, 13), 7, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 129, 1},
              "outside resource 7"},
        Wrong{"stream transfers nowhere",
              14,
              Command::kSubmitCmd,
              {head(43, 0, 13), 7, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 3},
              "no direction"}));

TEST(GlSession, WantsTheGreetingFirst) {
  SessionRig rig;
  rig.channel.send(Command::kGetCaps2, Words{});
  EXPECT_EQ(ending(rig), "it sent GET_CAPS2 before CREATE_RENDERER");
  EXPECT_TRUE(rig.state.calls.empty());
}

/// Real threads: a program that stops in the middle of a message, one that goes away, one that does
/// not take its replies, and one that sends descriptors.
class GlChannel : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    own_.emplace(*runtime_, vfiouser::Descriptor(ends[0]), 20 * runtime::kMillisecond);
    other_ = vfiouser::Descriptor(ends[1]);
  }
  void put(std::string_view text) {
    ASSERT_EQ(write(other_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  template <typename Body>
  void inside(const Body& body) {
    runtime_->run_main(body);
  }
  std::unique_ptr<runtime::Runtime> runtime_ = runtime::make_os_runtime(1);
  std::optional<SocketChannel> own_;
  vfiouser::Descriptor other_;
};

TEST_F(GlChannel, GivesUpOnAMessageThatDoesNotEnd) {
  inside([&] {
    std::array<std::byte, 8> room;
    put("abcdef");
    const auto got = own_->read(room, false);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error(), "it did not end a message in time");
  });
}

TEST_F(GlChannel, SeesTheEndBetweenMessagesAndInOne) {
  inside([&] {
    std::array<std::byte, 4> room;
    put("abcdef");
    EXPECT_TRUE(own_->read(room, false).value());
    other_ = vfiouser::Descriptor();
    const auto got = own_->read(room, false);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error(), "it closed the connection in the middle of a message");
    EXPECT_FALSE(own_->read(room, false).value());
  });
}

TEST_F(GlChannel, GivesUpOnAProgramThatTakesNoReplies) {
  inside([&] {
    const std::vector<std::byte> much(size_t{16} << 20);
    const auto sent = own_->write(much);
    ASSERT_FALSE(sent.has_value());
    EXPECT_EQ(sent.error(), "it did not take a reply in time");
  });
}

TEST_F(GlChannel, ReturnsWhenItIsShutDown) {
  inside([&] {
    const auto thread = runtime_->spawn("stops it", [&] { own_->shut_down(); });
    std::array<std::byte, 4> room;
    EXPECT_FALSE(own_->read(room, false).value());
    thread->join();
  });
}

TEST_F(GlChannel, SendsADescriptorWithAByte) {
  inside([&] {
    const auto memory = SharedMemory::create(4096);
    ASSERT_NE(memory, nullptr);
    ASSERT_TRUE(own_->send_descriptor(memory->fd()).has_value());
    char byte = 1;
    iovec piece{&byte, 1};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ASSERT_EQ(recvmsg(other_.get(), &message, 0), 1);
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    ASSERT_NE(rights, nullptr);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    const vfiouser::Descriptor got(fd);
    memory->bytes()[5] = std::byte{9};
    EXPECT_EQ(map(got, 4096)[5], std::byte{9});
  });
}

}  // namespace
}  // namespace dxgkit::gl
