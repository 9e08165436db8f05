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
  unsigned long long (*together)(Sim*, int function, unsigned mask, unsigned long long value, int argument, int width, int line);
  void (*misaligned)(Sim*, unsigned long address, unsigned long alignment, int line);
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
#define DI_RARE static inline
#define DYNAMIC_SHARED(name) unsigned char* const name = sim->dynamic
#define __syncthreads() sim->barrier(sim, __LINE__)
#define warpSize 32

// The compiler checks the address of each access, and calls this function for one that is no multiple of its alignment.
struct SimPlace { const char* file; unsigned line, column; };
struct SimAccess { SimPlace place; void* type; unsigned char log_alignment, kind; };
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void* access, void* address) {
  const SimAccess* const found = (const SimAccess*)access;
  sim->misaligned(sim, (unsigned long)address, 1ul << found->log_alignment, (int)found->place.line);
}

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

// ---- functions that the lanes of a warp call together; the numbers are those of `warp.rs`
#define SIM_LINE int line = __builtin_LINE()
template <class T> static inline T sim_shuffle(int function, unsigned mask, T value, int by, int width, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle takes 4 or 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = sim->together(sim, function, mask, bits, by, width, line);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SIM_LINE) { return sim_shuffle(0, mask, value, lane, width, line); }
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, SIM_LINE) { return sim_shuffle(1, mask, value, (int)by, width, line); }
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SIM_LINE) { return sim_shuffle(2, mask, value, (int)by, width, line); }
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32, SIM_LINE) { return sim_shuffle(3, mask, value, by, width, line); }
static inline unsigned sim_vote(int function, unsigned mask, unsigned long long value, int line) { return (unsigned)sim->together(sim, function, mask, value, 0, 32, line); }
static inline unsigned __ballot_sync(unsigned mask, int holds, SIM_LINE) { return sim_vote(4, mask, holds != 0, line); }
static inline int __any_sync(unsigned mask, int holds, SIM_LINE) { return (int)sim_vote(5, mask, holds != 0, line); }
static inline int __all_sync(unsigned mask, int holds, SIM_LINE) { return (int)sim_vote(6, mask, holds != 0, line); }
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value, SIM_LINE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a match takes 4 or 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  return sim_vote(7, mask, bits, line);
}
static inline int __reduce_add_sync(unsigned mask, int value, SIM_LINE) { return (int)sim_vote(8, mask, (unsigned)value, line); }
static inline unsigned __reduce_add_sync(unsigned mask, unsigned value, SIM_LINE) { return sim_vote(8, mask, value, line); }
static inline int __reduce_min_sync(unsigned mask, int value, SIM_LINE) { return (int)sim_vote(9, mask, (unsigned)value, line); }
static inline int __reduce_max_sync(unsigned mask, int value, SIM_LINE) { return (int)sim_vote(10, mask, (unsigned)value, line); }
static inline unsigned __reduce_min_sync(unsigned mask, unsigned value, SIM_LINE) { return sim_vote(11, mask, value, line); }
static inline unsigned __reduce_max_sync(unsigned mask, unsigned value, SIM_LINE) { return sim_vote(12, mask, value, line); }
static inline unsigned __reduce_and_sync(unsigned mask, unsigned value, SIM_LINE) { return sim_vote(13, mask, value, line); }
static inline unsigned __reduce_or_sync(unsigned mask, unsigned value, SIM_LINE) { return sim_vote(14, mask, value, line); }
static inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, SIM_LINE) { return sim_vote(15, mask, value, line); }
static inline void __syncwarp(unsigned mask = 0xffffffffu, SIM_LINE) { sim_vote(16, mask, 0, line); }

// ---- functions of tensor cores, which all lanes call: the fragments of `tensor.rs`
struct SimFragments { const void *a, *b; void* to; };
static inline void sim_tensor(int function, const void* a, const void* b, void* to, int line) {
  const SimFragments fragments = {a, b, to};
  sim->together(sim, function, 0xffffffffu, (unsigned long long)&fragments, 0, 32, line);
}
static inline void sim_matrices(int function, unsigned* to, const void* row, int line) {
  if ((unsigned long)row % 16) sim->misaligned(sim, (unsigned long)row, 16, line);
  sim_tensor(function, row, row, to, line);
}
static inline void mma_f16_sync(float* sum, const unsigned* a, const unsigned* b, SIM_LINE) { sim_tensor(17, a, b, sum, line); }
static inline void mma_bf16_sync(float* sum, const unsigned* a, const unsigned* b, SIM_LINE) { sim_tensor(18, a, b, sum, line); }
static inline void ldmatrix_sync(unsigned* to, const void* row, SIM_LINE) { sim_matrices(19, to, row, line); }
static inline void ldmatrix_transposed_sync(unsigned* to, const void* row, SIM_LINE) { sim_matrices(20, to, row, line); }

// ---- vectors, which are read and written by one access
#define SIM_VECTORS(T, NAME) \
  struct __align__(sizeof(T) * 2) NAME##2 { T x, y; }; \
  struct __align__(sizeof(T) * 4 < 16 ? sizeof(T) * 4 : 16) NAME##4 { T x, y, z, w; }; \
  static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; } \
  static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SIM_VECTORS(float, float) SIM_VECTORS(int, int) SIM_VECTORS(unsigned, uint) SIM_VECTORS(unsigned short, ushort) SIM_VECTORS(unsigned char, uchar)
struct __align__(16) double2 { double x, y; };
static inline double2 make_double2(double x, double y) { return {x, y}; }

// Plain steps suffice: blocks run one after another, and a thread is not interrupted.
template <class T> static inline T atomicExch(T* at, T value) { const T old = *at; *at = value; return old; }
template <class T> static inline T atomicAdd(T* at, T value) { const T old = *at; *at = old + value; return old; }
template <class T> static inline T atomicSub(T* at, T value) { const T old = *at; *at = old - value; return old; }
template <class T> static inline T atomicMax(T* at, T value) { const T old = *at; if (value > old) *at = value; return old; }
template <class T> static inline T atomicMin(T* at, T value) { const T old = *at; if (value < old) *at = value; return old; }
template <class T> static inline T atomicAnd(T* at, T value) { const T old = *at; *at = old & value; return old; }
template <class T> static inline T atomicOr(T* at, T value) { const T old = *at; *at = old | value; return old; }
template <class T> static inline T atomicXor(T* at, T value) { const T old = *at; *at = old ^ value; return old; }
template <class T> static inline T atomicCAS(T* at, T expected, T value) { const T old = *at; if (old == expected) *at = value; return old; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }

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
