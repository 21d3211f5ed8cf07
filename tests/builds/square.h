// Included in another case: Windows has names without it.
#pragma once

class Shape {
 public:
  virtual ~Shape() = default;
  virtual int corners() const = 0;
};

template <int kCorners>
class Polygon final : public Shape {
 public:
  explicit Polygon(int size) : size_(size) {}
  int corners() const override { return size_ > 0 ? kCorners : 0; }

 private:
  int size_;
};
