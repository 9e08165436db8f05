// The language of CUDA C++ for a compiler of plain C++. `sim` gives access to the scheduler of a block.
// No header is included: those of the C++ library take longer to read than a kernel takes to compile.
#pragma once
#define RANKFORM_HOST 1
extern "C" {
float fmodf(float, float); float fmaf(float, float, float); float rintf(float); float floorf(float); float ceilf(float); float truncf(float);
double fmod(double, double); double fma(double, double, double); double rint(double); double floor(double); double ceil(double); double trunc(double);
float fabsf(float); float sqrtf(float); double fabs(double); double sqrt(double); float ldexpf(float, int); int ilogbf(float);
void* memcpy(void*, const void*, unsigned long); void* memset(void*, int, unsigned long);
}

struct SimDim { unsigned x, y, z; };
struct SimThread { SimDim index; };
struct Sim {
  SimThread* thread; // the running thread
  SimDim block, threads, blocks;
  unsigned char* dynamic;
  void (*barrier)(Sim*, int line);
};
static Sim* sim;
#define threadIdx (sim->thread->index)
#define blockIdx (sim->block)
#define blockDim (sim->threads)
#define gridDim (sim->blocks)
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("sim_shared_" SOURCE)))
#define DI static inline
#define DI_MEMBER static inline
#define DYNAMIC_SHARED(name) unsigned char* const name = sim->dynamic
#define __syncthreads() sim->barrier(sim, __LINE__)

template <class TO, class FROM> static inline TO sim_bits(FROM from) {
  static_assert(sizeof(TO) == sizeof(FROM), "the same bits");
  TO to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __uint_as_float(unsigned x) { return sim_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return sim_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return sim_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return sim_bits<long long>(x); }
// Plain steps suffice: blocks run one after another, and a thread is not interrupted.
template <class T> static inline T atomicExch(T* at, T value) { const T old = *at; *at = value; return old; }
template <class T> static inline T atomicAdd(T* at, T value) { const T old = *at; *at = old + value; return old; }
template <class T> static inline T atomicMax(T* at, T value) { const T old = *at; if (value > old) *at = value; return old; }

// IEEE 754 binary16, rounded to nearest even.
static inline float of_f16(unsigned short half) {
  const unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  const float magnitude = exponent == 0 ? ldexpf((float)fraction, -24) : ldexpf((float)(1024 + fraction), (int)exponent - 25);
  return sign ? -magnitude : magnitude;
}
static inline unsigned short to_f16(float value) {
  const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u;
  const float magnitude = fabsf(value);
  if (value != value) return 0x7fff;
  if (magnitude >= 65520.0f) return (unsigned short)(sign | 0x7c00);
  // The magnitude in ULP of the half: 2^-24 for subnormal numbers.
  int exponent = magnitude == 0.0f ? -14 : ilogbf(magnitude);
  if (exponent < -14) exponent = -14;
  const unsigned units = (unsigned)rintf(ldexpf(magnitude, 10 - exponent));
  return (unsigned short)(sign | (units + ((unsigned)(exponent + 14) << 10)));
}

// For each source the simulator fills the static shared memory, and asks for its size. For each kernel it calls
// `name__sim`, and asks for the size of the only argument.
#define SIM_SHARED(name, start, stop) \
  extern "C" unsigned char start[] __attribute__((weak)), stop[] __attribute__((weak)); \
  extern "C" unsigned long name##__size() { return start ? stop - start : 0; } \
  extern "C" void name##__forget() { if (start) memset(start, 0xff, stop - start); }
template <class A> static inline unsigned long sim_size(void (*)(A)) { return sizeof(A); }
template <class A> static inline void sim_call(void (*kernel)(A), void** arguments) { kernel(*(A*)arguments[0]); }
#define SIM_ENTRY(name, kernel) \
  extern "C" void name##__sim(Sim* to, void** arguments) { sim = to; sim_call(kernel, arguments); } \
  extern "C" unsigned long name##__size() { return sim_size(kernel); }
