// Addresses of functions: tables in constant and global memory, virtual functions, calls through them; and a heap.
namespace tables {

using Binary = int (*)(int, int);

__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }

/// A function whose parameters differ from all others'.
struct Pair {
  long long low;
  double high;
};
__device__ double weigh(Pair pair, float by) { return static_cast<double>(pair.low) + pair.high * by; }
using Weigh = double (*)(Pair, float);

__constant__ Binary constant_table[] = {add, subtract, multiply};
__device__ Binary table[] = {multiply, nullptr, add};
__device__ Weigh heavy = weigh;

/// Its addresses are initialised byte by byte.
struct __attribute__((packed)) Entry {
  char number;
  Binary apply;
  const Binary *next;
};
__device__ Entry entries[] = {{1, subtract, &table[2]}, {2, multiply, &table[0]}};

class Shape {
 public:
  __device__ virtual ~Shape() {}
  __device__ virtual int area() const = 0;
  __device__ virtual int corners() const { return 0; }
};
class Square : public Shape {
 public:
  __device__ explicit Square(int side) : side_(side) {}
  __device__ int area() const override { return side_ * side_; }
  __device__ int corners() const override { return 4; }

 private:
  int side_;
};
class Disc : public Shape {
 public:
  __device__ explicit Disc(int radius) : radius_(radius) {}
  __device__ int area() const override { return 3 * radius_ * radius_; }

 private:
  int radius_;
};

}  // namespace tables

using namespace tables;

extern "C" __global__ void tabled(const int *which, int *out) {
  int i = threadIdx.x;
  out[i] = constant_table[which[i]](100 + i, i) + (which[i] != 1 ? table[which[i]](i, 7) : 0);
}

extern "C" __global__ void packed(int *out) {
  int i = threadIdx.x;
  const Entry &entry = entries[i & 1];
  Binary next = *entry.next;
  out[i] = entry.apply(i, 3) * 1000 + next(i, 5) + entry.number;
}

extern "C" __global__ void weighed(float *out) {
  out[threadIdx.x] = static_cast<float>(heavy({threadIdx.x, 0.5}, 3.0f));
}

extern "C" __global__ void shaped(const int *which, int *out) {
  int i = threadIdx.x;
  Shape *shape = which[i] ? static_cast<Shape *>(new Square(i)) : new Disc(i);
  out[i] = shape->area() * 10 + shape->corners();
  delete shape;
}

/// Frees the memory of `make`.
extern "C" __global__ void make(int **place) {
  place[threadIdx.x] = static_cast<int *>(malloc(sizeof(int)));
  *place[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void give_back(int **place) { free(place[threadIdx.x]); }
