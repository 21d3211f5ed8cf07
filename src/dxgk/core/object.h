// Counted objects behind client handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace dxgkit::dxgk {

enum class ObjectType : uint8_t {
  kAdapter,
  kDevice,
  kContext,
  kResource,
  kAllocation,
  kSyncObject,
  kPagingQueue,
  kSharedResource,
  kHwContext,
  kHwQueue,
  kSharedSync,
  kKeyedMutex,
  kSharedKeyedMutex,
  kOverlay,
  kProtectedSession,
  kSharedSession,
  kSyncFile
};

/// Base of everything a handle can name. Counted, because a thunk on one thread may use an object
/// that a thunk on another thread destroys: the handle goes at once, the memory when the last user
/// is done.
class Object {
 public:
  explicit Object(ObjectType type) : type_(type) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  ObjectType type() const { return type_; }
  /// For the trace: the number by which other events know it, or 0.
  virtual uint64_t trace_id() const { return 0; }
  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  const ObjectType type_;
  // Plain counting; acquire/release orders the last user's writes before the delete.
  std::atomic<uint32_t> references_{0};
};

/// Owning pointer to an Object.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->add_reference();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  template <typename U>
  Ref(const Ref<U>& other) : Ref(static_cast<T*>(other.get())) {}  // NOLINT: implicit upcast
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->drop_reference();
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> make_object(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace dxgkit::dxgk
