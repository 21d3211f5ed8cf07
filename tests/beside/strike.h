// A place inside a call, and what happens there before the call goes on.
#pragma once

#include <cstddef>
#include <functional>

namespace dxgkit::beside {

/// While it lives, counts the places of the thread that made it: each time the kernel copies
/// something of the client's, and each time it goes to an adapter's lane. One at a time. At place
/// `at`, from 1 on, `act` happens on that thread; 0 counts only.
class Strike {
 public:
  Strike(size_t at, std::function<void()> act);
  ~Strike();
  Strike(const Strike&) = delete;
  Strike& operator=(const Strike&) = delete;

  size_t places() const { return places_; }

 private:
  friend struct Places;
  void reached();

  const size_t at_;
  const std::function<void()> act_;
  const unsigned thread_;
  size_t places_ = 0;
  bool acting_ = false;
};

}  // namespace dxgkit::beside
