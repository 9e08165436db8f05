// The language of generated kernels: types with their Rust names, and one overloaded function for each step
// of the operator language, with the name of the step and the meaning that `scalar` defines. No header is
// needed.
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;
struct f16 { u16 x; }; struct bf16 { u16 x; }; struct f8e4m3 { u8 x; }; struct f8e5m2 { u8 x; };
struct c16 { u16 re, im; }; struct c32 { f32 re, im; }; struct c64 { f64 re, im; };
#ifndef RANKFORM_HOST
#define DI static __device__ __forceinline__
#define DI_MEMBER static __device__ __forceinline__
#define DI_RARE static __device__ __noinline__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]
DI f32 of_f16(u16 h) { f32 f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
DI u16 to_f16(f32 f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
// Tensor cores (sm_80): all lanes of a warp add the product of their fragments of a and b to sums, and load
// fragments of four matrices of 8 × 8 elements of 16 bits from shared memory.
#define MMA(NAME, T) DI void NAME(f32* sum, const u32* a, const u32* b) { \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." T "." T ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); }
MMA(mma_f16_sync, "f16") MMA(mma_bf16_sync, "bf16")
#define LDMATRIX(NAME, FORM) DI void NAME(u32* to, const void* row) { \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" FORM ".shared.b16 {%0, %1, %2, %3}, [%4];" \
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"((u32)__cvta_generic_to_shared(row))); }
LDMATRIX(ldmatrix_sync, "") LDMATRIX(ldmatrix_transposed_sync, ".trans")
#endif

// ---- bits
DI u32 ToBits(f32 x) { return __float_as_uint(x); }
DI u64 ToBits(f64 x) { return (u64)__double_as_longlong(x); }
DI f32 FromBits(u32 x) { return __uint_as_float(x); }
DI f64 FromBits(u64 x) { return __longlong_as_double((i64)x); }
DI bool is_nan(f32 x) { return x != x; }
DI bool is_nan(f64 x) { return x != x; }

// The nearest bfloat16, which GPUs before sm_80 have no instruction for. NaN stays NaN.
#if !defined(RANKFORM_HOST) && __CUDA_ARCH__ >= 800
DI u16 to_bf16(f32 f) { u16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#else
DI u16 to_bf16(f32 f) { const u32 b = ToBits(f); return is_nan(f) ? (u16)((b >> 16) | 0x40) : (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16); }
#endif

// ---- + - * / and negation: integers wrap, and a division by 0 is 0
#define INTEGER(T, U) \
  DI T Add(T a, T b) { return (T)((U)a + (U)b); } \
  DI T Sub(T a, T b) { return (T)((U)a - (U)b); } \
  DI T Mul(T a, T b) { return (T)((U)a * (U)b); } \
  DI T Negate(T a) { return (T)((U)0 - (U)a); } \
  DI T Max(T a, T b) { return a > b ? a : b; } \
  DI T Min(T a, T b) { return a < b ? a : b; } \
  DI T And(T a, T b) { return (T)(a & b); } \
  DI T Or(T a, T b) { return (T)(a | b); } \
  DI T Xor(T a, T b) { return (T)(a ^ b); }
INTEGER(i8, u32) INTEGER(i16, u32) INTEGER(i32, u32) INTEGER(i64, u64)
INTEGER(u8, u32) INTEGER(u16, u32) INTEGER(u32, u32) INTEGER(u64, u64)
#define SIGNED(T, U, BITS) \
  DI T Div(T a, T b) { return b == 0 ? (T)0 : b == (T)-1 ? Negate(a) : (T)(a / b); } \
  DI T Rem(T a, T b) { return b == 0 || b == (T)-1 ? (T)0 : (T)(a % b); }
SIGNED(i8, u8, 8) SIGNED(i16, u16, 16) SIGNED(i32, u32, 32) SIGNED(i64, u64, 64)
#define UNSIGNED(T) \
  DI T Div(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); } \
  DI T Rem(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }
UNSIGNED(u8) UNSIGNED(u16) UNSIGNED(u32) UNSIGNED(u64)
#define SHIFTS(T, U, BITS) \
  DI T Left(T a, u32 by) { return (T)((U)a << (by & (BITS - 1))); } \
  DI T Right(T a, u32 by) { return (T)(a >> (by & (BITS - 1))); }
SHIFTS(i8, u32, 8) SHIFTS(i16, u32, 16) SHIFTS(i32, u32, 32) SHIFTS(i64, u64, 64)
SHIFTS(u8, u32, 8) SHIFTS(u16, u32, 16) SHIFTS(u32, u32, 32) SHIFTS(u64, u64, 64)
DI bool And(bool a, bool b) { return a & b; }
DI bool Or(bool a, bool b) { return a | b; }
DI bool Xor(bool a, bool b) { return a != b; }
DI bool Max(bool a, bool b) { return a | b; }
DI bool Min(bool a, bool b) { return a & b; }

// ---- reals: IEEE 754 steps, never contracted (kernels are compiled with --fmad=false)
#define REAL(T, BITS, SIGN, F) \
  DI T Add(T a, T b) { return a + b; } \
  DI T Sub(T a, T b) { return a - b; } \
  DI T Mul(T a, T b) { return a * b; } \
  DI T Div(T a, T b) { return a / b; } \
  DI T Negate(T a) { return -a; } \
  DI T Max(T a, T b) { const T larger = b > a ? b : a; const T s = ToBits(b) == 0 ? FromBits(ToBits(larger) & ~(BITS)SIGN) : larger; return b != b ? b : s; } \
  DI T Min(T a, T b) { const T smaller = b < a ? b : a; const T s = ToBits(b) == (BITS)SIGN ? FromBits(ToBits(smaller) | (BITS)SIGN) : smaller; return b != b ? b : s; } \
  DI T Rem(T a, T b) { return fmod##F(a, b); } \
  DI T MulAdd(T a, T b, T c) { return fma##F(a, b, c); } \
  DI T Round(T a) { return rint##F(a); } \
  DI T Floor(T a) { return floor##F(a); } \
  DI T Ceil(T a) { return ceil##F(a); } \
  DI T Trunc(T a) { return trunc##F(a); } \
  DI T Abs(T a) { return fabs##F(a); } \
  DI T Sqrt(T a) { return sqrt##F(a); }
REAL(f32, u32, 0x80000000u, f) REAL(f64, u64, 0x8000000000000000ull, )
template <class T> DI bool Lt(T a, T b) { return a < b; }
template <class T> DI bool Le(T a, T b) { return a <= b; }
template <class T> DI bool Equal(T a, T b) { return a == b; }

// ---- complex
#define COMPLEX(C, T) \
  DI C Add(C a, C b) { C c = {a.re + b.re, a.im + b.im}; return c; } \
  DI C Sub(C a, C b) { C c = {a.re - b.re, a.im - b.im}; return c; } \
  DI C Mul(C a, C b) { C c = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; return c; } \
  DI C Negate(C a) { C c = {-a.re, -a.im}; return c; } \
  DI bool Equal(C a, C b) { return a.re == b.re && a.im == b.im; } \
  DI T Re(C a) { return a.re; } \
  DI T Im(C a) { return a.im; } \
  DI C Complex(T re, T im) { C c = {re, im}; return c; } \
  DI C Div(C a, C b) { /* Smith 1962 */ \
    const bool steep = Abs(b.re) < Abs(b.im); \
    const T large = steep ? b.im : b.re, small = steep ? b.re : b.im; \
    const T ratio = large == (T)0 ? large : small / large, below = small * ratio + large; \
    const T re = steep ? a.re * ratio + a.im : a.re + a.im * ratio, im = steep ? a.im * ratio - a.re : a.im - a.re * ratio; \
    C c = {re / below, im / below}; return c; }
COMPLEX(c32, f32) COMPLEX(c64, f64)

// ---- 8-bit floats, as in `element`: bits of the fraction, bias, largest finite code, codes of overflow, NaN
// and infinity
#define NARROW(T, M, BIAS, MOST, BEYOND, NAN_, INF_) \
  DI f32 widen(T x) { \
    const u32 code = x.x & 0x7f; \
    const f32 finite = FromBits(code << (23 - M)) * FromBits((u32)(254 - BIAS) << 23); \
    const f32 number = code > MOST ? FromBits(code == INF_ ? 0x7f800000u : 0x7fc00000u) : finite; \
    return FromBits(ToBits(number) | (u32)(x.x >> 7) << 31); } \
  DI T narrow_##T(f32 x) { \
    const u32 bits = ToBits(x) & 0x7fffffffu, sign = ToBits(x) >> 31 << 7; \
    const f32 steps = Round(FromBits(bits) * FromBits((u32)(126 + BIAS + M) << 23)); \
    const u32 rounded = (bits + ((1u << (22 - M)) - 1) + (bits >> (23 - M) & 1)) >> (23 - M); \
    const u32 code = bits < (u32)(128 - BIAS) << 23 ? (u32)steps : rounded - ((u32)(127 - BIAS) << M); \
    T y; y.x = (u8)(sign | (bits > 0x7f800000u ? NAN_ : code > MOST ? BEYOND : code)); return y; }
NARROW(f8e4m3, 3, 7, 0x7eu, 0x7fu, 0x7fu, 0x100u) NARROW(f8e5m2, 2, 15, 0x7bu, 0x7cu, 0x7eu, 0x7cu)

// ---- casts: floats saturate to integers, integers wrap
template <class TO> struct Cast;
#define FROM_REAL(TO, LOW, HIGH, LEAST, MOST) \
  DI_MEMBER TO of(f32 x) { return x != x ? (TO)0 : x <= (f32)LOW ? LEAST : x >= (f32)HIGH ? MOST : (TO)x; } \
  DI_MEMBER TO of(f64 x) { return x != x ? (TO)0 : x <= (f64)LOW ? LEAST : x >= (f64)HIGH ? MOST : (TO)x; }
#define FROM_PLAIN(TO) \
  DI_MEMBER TO of(bool x) { return (TO)x; } \
  DI_MEMBER TO of(i8 x) { return (TO)x; } DI_MEMBER TO of(i16 x) { return (TO)x; } DI_MEMBER TO of(i32 x) { return (TO)x; } DI_MEMBER TO of(i64 x) { return (TO)x; } \
  DI_MEMBER TO of(u8 x) { return (TO)x; } DI_MEMBER TO of(u16 x) { return (TO)x; } DI_MEMBER TO of(u32 x) { return (TO)x; } DI_MEMBER TO of(u64 x) { return (TO)x; }
#define FROM_OTHERS(TO) \
  DI_MEMBER TO of(f16 x) { return of(of_f16(x.x)); } DI_MEMBER TO of(bf16 x) { return of(FromBits((u32)x.x << 16)); } \
  DI_MEMBER TO of(f8e4m3 x) { return of(widen(x)); } DI_MEMBER TO of(f8e5m2 x) { return of(widen(x)); } DI_MEMBER TO of(c16 x) { return of(of_f16(x.re)); } \
  DI_MEMBER TO of(c32 x) { return of((f64)x.re); } DI_MEMBER TO of(c64 x) { return of(x.re); }
#define CAST_INTEGER(TO, LOW, HIGH, LEAST, MOST) \
  template <> struct Cast<TO> { FROM_PLAIN(TO) FROM_REAL(TO, LOW, HIGH, (TO)(LEAST), (TO)(MOST)) FROM_OTHERS(TO) };
CAST_INTEGER(i8, -128.0, 127.0, -128, 127)
CAST_INTEGER(i16, -32768.0, 32767.0, -32768, 32767)
CAST_INTEGER(i32, -2147483648.0, 2147483648.0, 0x80000000u, 0x7fffffff)
CAST_INTEGER(i64, -9223372036854775808.0, 9223372036854775808.0, 0x8000000000000000ull, 0x7fffffffffffffffll)
CAST_INTEGER(u8, 0.0, 255.0, 0, 255)
CAST_INTEGER(u16, 0.0, 65535.0, 0, 65535)
CAST_INTEGER(u32, 0.0, 4294967296.0, 0, 0xffffffffu)
CAST_INTEGER(u64, 0.0, 18446744073709551616.0, 0, 0xffffffffffffffffull)
template <> struct Cast<bool> {
  template <class T> DI_MEMBER bool of(T x) { return x != (T)0; }
  DI_MEMBER bool of(bool x) { return x; }
  DI_MEMBER bool of(f16 x) { return of_f16(x.x) != 0.0f; } DI_MEMBER bool of(bf16 x) { return FromBits((u32)x.x << 16) != 0.0f; }
  DI_MEMBER bool of(f8e4m3 x) { return widen(x) != 0.0f; } DI_MEMBER bool of(f8e5m2 x) { return widen(x) != 0.0f; }
  DI_MEMBER bool of(c16 x) { return of_f16(x.re) != 0.0f || of_f16(x.im) != 0.0f; }
  DI_MEMBER bool of(c32 x) { return x.re != 0.0f || x.im != 0.0f; } DI_MEMBER bool of(c64 x) { return x.re != 0.0 || x.im != 0.0; }
};
#define CAST_REAL(TO) \
  template <> struct Cast<TO> { FROM_PLAIN(TO) DI_MEMBER TO of(f32 x) { return (TO)x; } DI_MEMBER TO of(f64 x) { return (TO)x; } FROM_OTHERS(TO) };
CAST_REAL(f32) CAST_REAL(f64)
template <> struct Cast<f16> { template <class T> DI_MEMBER f16 of(T x) { f16 h; h.x = to_f16(Cast<f32>::of(x)); return h; } };
template <> struct Cast<bf16> {
  DI_MEMBER bf16 of(f32 x) { bf16 h; h.x = to_bf16(x); return h; }
  template <class T> DI_MEMBER bf16 of(T x) { return of(Cast<f32>::of(x)); }
};
template <> struct Cast<f8e4m3> { template <class T> DI_MEMBER f8e4m3 of(T x) { return narrow_f8e4m3(Cast<f32>::of(x)); } };
template <> struct Cast<f8e5m2> { template <class T> DI_MEMBER f8e5m2 of(T x) { return narrow_f8e5m2(Cast<f32>::of(x)); } };
template <> struct Cast<c32> {
  template <class T> DI_MEMBER c32 of(T x) { c32 c = {Cast<f32>::of(x), 0.0f}; return c; }
  DI_MEMBER c32 of(c16 x) { c32 c = {of_f16(x.re), of_f16(x.im)}; return c; }
  DI_MEMBER c32 of(c32 x) { return x; } DI_MEMBER c32 of(c64 x) { c32 c = {(f32)x.re, (f32)x.im}; return c; }
};
template <> struct Cast<c64> {
  template <class T> DI_MEMBER c64 of(T x) { c64 c = {Cast<f64>::of(x), 0.0}; return c; }
  DI_MEMBER c64 of(c16 x) { c64 c = {of_f16(x.re), of_f16(x.im)}; return c; }
  DI_MEMBER c64 of(c32 x) { c64 c = {x.re, x.im}; return c; } DI_MEMBER c64 of(c64 x) { return x; }
};
template <> struct Cast<c16> {
  template <class T> DI_MEMBER c16 of(T x) { const c32 wide = Cast<c32>::of(x); c16 c = {to_f16(wide.re), to_f16(wide.im)}; return c; }
};
template <class TO, class FROM> DI TO cast(FROM x) { return Cast<TO>::of(x); }

// ---- memory: V neighbors as one access; a run-time parameter from two words of the argument block
template <class T, int V> struct __align__(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack { T e[V]; };
template <class T, int V> DI void load(T* to, const T* from) {
  const Pack<T, V> p = *(const Pack<T, V>*)from;
#pragma unroll
  for (int j = 0; j < V; j++) to[j] = p.e[j];
}
template <class T, int V> DI void store(T* to, const T* from) {
  Pack<T, V> p;
#pragma unroll
  for (int j = 0; j < V; j++) p.e[j] = from[j];
  *(Pack<T, V>*)to = p;
}
template <class T> DI T number(i64 low, i64 high) {
  const i64 words[2] = {low, high};
  T value;
  static_assert(sizeof(T) <= sizeof(words), "a number of 16 bytes at most");
  memcpy(&value, words, sizeof(T));
  return value;
}

// ---- values of other lanes of a warp, whose groups have `width` lanes each: of the lane `by` above, and of the first
template <class T> DI T lane_down_sync(T x, const int by, const int width) {
  u32 words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &x, sizeof(T));
#pragma unroll
  for (int k = 0; k < (int)((sizeof(T) + 3) / 4); k++) words[k] = __shfl_down_sync(0xffffffffu, words[k], by, width);
  memcpy(&x, words, sizeof(T));
  return x;
}
template <class T> DI T lane_first_sync(T x, const int width) {
  u32 words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &x, sizeof(T));
#pragma unroll
  for (int k = 0; k < (int)((sizeof(T) + 3) / 4); k++) words[k] = __shfl_sync(0xffffffffu, words[k], 0, width);
  memcpy(&x, words, sizeof(T));
  return x;
}

// The lanes of a warp in which the bits `mask` of x are all 0 or not, as in this one.
#ifdef RANKFORM_HOST
DI u32 agreement_sync(const u32 x, const u32 mask) {
  const u32 votes = __ballot_sync(0xffffffffu, (x & mask) != 0);
  return x & mask ? votes : ~votes;
}
#else
DI u32 agreement_sync(const u32 x, const u32 mask) {
  u32 lanes;
  asm volatile("{ .reg .pred p; .reg .b32 r; and.b32 r, %1, %2; setp.ne.u32 p, r, 0;"
      " vote.sync.ballot.b32 %0, p, 0xffffffff; @!p not.b32 %0, %0; }" : "=r"(lanes) : "r"(x), "r"(mask));
  return lanes;
}
#endif

// ---- rest / size: for positions of 32 bits by a multiplication and a shift. The host computes both operands
// (`codegen/args.rs`)
DI i32 quotient(i32 rest, i32, i64 divisor) { return (i32)(((u64)(u32)rest * (u64)(u32)divisor) >> (divisor >> 32)); }
DI i64 quotient(i64 rest, i64 size, i64) { return rest / size; }

// ---- a · b + c: with one rounding for real numbers
template <class T> DI T product(T a, T b, T c) { return Add(Mul(a, b), c); }
DI f32 product(f32 a, f32 b, f32 c) { return MulAdd(a, b, c); }
DI f64 product(f64 a, f64 b, f64 c) { return MulAdd(a, b, c); }
