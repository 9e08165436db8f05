// Stable radix sort of lines: elements by the digits of their keys, 8 bits a pass, the least significant
// first (Knuth 1973, 5.2.5).
//
// Elements keep their bits; keys only decide. A tile is ITEMS elements of each thread. The slot of element
// `item` of a thread is 32 · (ITEMS · warp + item) + lane, and slots have the order of the line. `sort.rs`
// defines Element, ITEMS, VALUES and POSITIONS (the results that are wanted) and `line_offsets` before this
// text, and queues as kernels the three functions of long lines and `sort_tile_sync`.

// ---- the words of all kernels, of those for lines within a tile, of those for long lines: in the order of
// `sort.rs`
enum {
  LINES, ALONG, FIRST, KEEP, FLIP, FROM, TO_VALUES, TO_POSITIONS, FROM_STEP, VALUES_STEP, POSITIONS_STEP, OWN
};
enum { GROUP = OWN, INVERSE };
enum {
  PASS = OWN, PARTS, SHARE, WIDTH, COUNTS, TOTALS, PART_BITS, LINE_BITS,
  KEPT_ELEMENTS, KEPT_POSITIONS = KEPT_ELEMENTS + 2
};
constexpr int THREADS = 256, WARPS = THREADS / 32, DIGITS = 256, TILE = THREADS * ITEMS;
constexpr u32 ALL = 0xffffffffu;

// ---- keys: integers of the elements' size and order. −0 equals 0, and NaN is the largest
DI u8 order_key(bool x) { return x; }
DI u8 order_key(u8 x) { return x; }
DI u16 order_key(u16 x) { return x; }
DI u32 order_key(u32 x) { return x; }
DI u64 order_key(u64 x) { return x; }
DI u8 order_key(i8 x) { return (u8)(x ^ 0x80); }
DI u16 order_key(i16 x) { return (u16)(x ^ 0x8000); }
DI u32 order_key(i32 x) { return (u32)x ^ 0x80000000u; }
DI u64 order_key(i64 x) { return (u64)x ^ 0x8000000000000000ull; }
DI u16 half_key(const u16 bits, const u16 infinity) {
  const u16 magnitude = bits & 0x7fff;
  if (magnitude > infinity) return 0xffff;
  return magnitude == 0 ? 0x8000 : bits & 0x8000 ? (u16)~bits : bits | 0x8000;
}
DI u16 order_key(f16 x) { return half_key(x.x, 0x7c00); }
DI u16 order_key(bf16 x) { return half_key(x.x, 0x7f80); }
DI u32 order_key(f32 x) {
  if (is_nan(x)) return 0xffffffffu;
  const i32 bits = (i32)ToBits(x + 0.0f);
  return (u32)(bits ^ (bits >> 31 | (i32)0x80000000));
}
DI u64 order_key(f64 x) {
  if (is_nan(x)) return 0xffffffffffffffffull;
  const i64 bits = (i64)ToBits(x + 0.0);
  return (u64)(bits ^ (bits >> 63 | (i64)0x8000000000000000ll));
}
typedef decltype(order_key(Element())) Key;
DI Key key_of(const Args& a, const Element x) { return (Key)(order_key(x) ^ (Key)a.v[FLIP]); }
DI u32 digit_of(const Key key, const int pass) { return (u32)(key >> 8 * pass) & 255u; }

// ---- steps of a block
// The sum of the numbers of the threads before this one.
template <class T> DI T before_sync(const T own, T* const sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T sum = own, earlier = 0;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const T other = __shfl_up_sync(ALL, sum, by);
    if (lane >= by) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WARPS; w++) if (w < warp) earlier += sums[w];
  return earlier + sum - own;
}

// The union of the bits of all threads.
DI u64 any_bits_sync(u64 bits, u64* const shared) {
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
#pragma unroll
  for (int by = 16; by > 0; by /= 2) bits |= __shfl_xor_sync(ALL, bits, by);
  if (threadIdx.x % 32 == 0) atomicOr(shared, bits);
  __syncthreads();
  return *shared;
}

// The lanes of the warp that have the digit of this one.
DI u32 peers_sync(const u32 digit) {
  u32 peers = ALL;
#pragma unroll
  for (int bit = 0; bit < 8; bit++) peers &= agreement_sync(digit, 1u << bit);
  return peers;
}

// Replaces the digit of each element by the element's slot in the stable order of digits. `start` and `count`
// become the first slot and the number of the elements whose digit is the number of this thread. `counts` has
// a number for each digit of each warp.
DI void rank_sync(u32* const rank, u32* const counts, u32* const sums, u32& start, u32& count) {
  const int t = threadIdx.x, lane = t % 32;
  u32* const own = counts + t / 32 * DIGITS;
#pragma unroll
  for (int digit = 0; digit < DIGITS; digit += 32) own[digit + lane] = 0;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const u32 digit = rank[k], peers = peers_sync(digit), lower = peers & ((1u << lane) - 1);
    const u32 before = own[digit];
    rank[k] = digit << 16 | (before + __popc(lower));
    __syncwarp();
    if (lower == 0) own[digit] = before + __popc(peers);
    __syncwarp();
  }
  __syncthreads();
  u32 before[WARPS];
  count = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) { before[w] = count; count += counts[w * DIGITS + t]; }
  start = before_sync(count, sums);
#pragma unroll
  for (int w = 0; w < WARPS; w++) counts[w * DIGITS + t] = start + before[w];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) rank[k] = (rank[k] & 0xffffu) + own[rank[k] >> 16];
}

// The slot of element `item` of this thread. Neighboring lanes have neighboring slots.
DI u32 slot_of(const int item) { return 32 * (ITEMS * (threadIdx.x / 32) + item) + threadIdx.x % 32; }
// The numbers of this thread's slots, and of the numbers `k · THREADS + threadIdx.x`, that are below `valid`.
DI int valid_slots(const u32 valid) { return ((int)valid - (int)slot_of(0) + 31) / 32; }
DI int valid_numbers(const u32 valid) { return ((int)valid - (int)threadIdx.x + THREADS - 1) / THREADS; }

// ---- lines within a tile: a block sorts a group of lines by their keys, then by the number of the line
DI void sort_tile_sync(const Args& a) {
  constexpr int BYTES = sizeof(Key);
  __shared__ __align__(16) Element elements[TILE];
  __shared__ u16 slots[TILE];
  __shared__ u32 counts[WARPS * DIGITS], sums[WARPS];
  __shared__ idx offsets[3][DIGITS];
  __shared__ u64 bits;
  const u32 along = (u32)a.v[ALONG], group = (u32)a.v[GROUP], t = threadIdx.x;
  const idx first = (idx)blockIdx.x * (idx)group, rest = (idx)a.v[LINES] - first;
  const u32 lines = rest < (idx)group ? (u32)rest : group, valid = lines * along;
  const auto line_of = [&](const u32 slot) { return (u32)((u64)slot * (u64)a.v[INVERSE] >> 32); };
  if (t < lines) {
    idx from = 0, values = 0, positions = 0;
    line_offsets(a, first + (idx)t, from, values, positions);
    offsets[0][t] = from; offsets[1][t] = values; offsets[2][t] = positions;
  }
  __syncthreads();
  const Element* const from = (const Element*)a.v[FROM];
  const Key reference = key_of(a, from[offsets[0][0]]);
  const int own = valid_slots(valid);
  u64 differ = 0;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const u32 slot = slot_of(k), line = line_of(slot);
    Element x = Element();
    if (k < own) {
      x = from[offsets[0][line] + (idx)(slot - line * along) * (idx)a.v[FROM_STEP]];
      differ |= (u64)(key_of(a, x) ^ reference);
    }
    elements[slot] = x;
    slots[slot] = (u16)slot;
  }
  differ = any_bits_sync(differ, &bits);
  for (int pass = 0; pass <= BYTES; pass++) {
    const bool by_line = pass == BYTES;
    if (by_line ? group == 1 : (differ >> 8 * pass & 255) == 0) continue;
    u32 rank[ITEMS], start, count;
    // Padding stays last: it has the largest digit and the last slots in every pass.
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const u32 slot = slot_of(k);
      const u32 digit = by_line ? line_of(slots[slot]) : digit_of(key_of(a, elements[slot]), pass);
      rank[k] = k < own ? digit : 255;
    }
    rank_sync(rank, counts, sums, start, count);
    Element x[ITEMS];
    u16 from_slots[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = elements[slot_of(k)];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) from_slots[k] = slots[slot_of(k)];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) elements[rank[k]] = x[k];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) slots[rank[k]] = from_slots[k];
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const u32 slot = slot_of(k), line = line_of(slot);
    const i64 at = (i64)(slot - line * along) - a.v[FIRST];
    if (k < own && at >= 0 && at < a.v[KEEP]) {
      const idx value = offsets[1][line] + (idx)at * (idx)a.v[VALUES_STEP];
      const idx position = offsets[2][line] + (idx)at * (idx)a.v[POSITIONS_STEP];
      if (VALUES) ((Element*)a.v[TO_VALUES])[value] = elements[slot];
      if (POSITIONS) ((i64*)a.v[TO_POSITIONS])[position] = (i64)(slots[slot] - line * along);
    }
  }
}

// ---- long lines: three kernels a pass. A part of a line is some tiles that a block takes
struct Part { idx line, part, begin, end; };
DI Part part_of(const Args& a) {
  Part p;
  const idx parts = (idx)a.v[PARTS], block = (idx)blockIdx.x;
  p.line = block / parts;
  p.part = block - p.line * parts;
  p.begin = p.part * (idx)a.v[SHARE];
  const idx end = p.begin + (idx)a.v[SHARE];
  p.end = end < (idx)a.v[ALONG] ? end : (idx)a.v[ALONG];
  return p;
}

// Passes move elements from the operand to kept memory, to other kept memory, …, and to the results. A pass
// whose digit is the same in a whole line moves nothing there. The first pass always does, and finds the
// digits that differ.
struct Move { bool is_any, is_first, is_last; int kept; };
DI Move move_of(const Args& a, const idx line) {
  const int pass = (int)a.v[PASS];
  const u64 differ = ((const u64*)a.v[LINE_BITS])[line];
  Move move = {pass == 0 || digit_of((Key)differ, pass) != 0, pass == 0, differ >> 8 * pass <= 255, 0};
  for (int k = 0; k < pass; k++) move.kept += k == 0 || digit_of((Key)differ, k) != 0;
  return move;
}

// Counts the digits of a range of elements, of which a load takes V.
template <int V>
DI u64 count_range(const Args& a, const Element* const from, const idx step, const idx begin, const idx end,
                   u32* const counts) {
  constexpr int LOADS = V > 4 ? 32 / V : V > 1 ? 4 : 8;
  const int pass = (int)a.v[PASS];
  const Key reference = key_of(a, from[0]);
  u64 differ = 0;
  for (idx first = begin + (idx)threadIdx.x * V; first < end; first += THREADS * LOADS * V) {
    Element x[LOADS][V];
#pragma unroll
    for (int k = 0; k < LOADS; k++) {
      const idx at = first + k * THREADS * V;
      if (V > 1 && at < end) load<Element, V>(x[k], from + at);
      if (V == 1 && at < end) x[k][0] = from[at * step];
    }
#pragma unroll
    for (int k = 0; k < LOADS; k++) {
      if (first + k * THREADS * V < end) {
#pragma unroll
        for (int j = 0; j < V; j++) {
          const Key key = key_of(a, x[k][j]);
          differ |= (u64)(key ^ reference);
          atomicAdd(counts + digit_of(key, pass), 1u);
        }
      }
    }
  }
  return differ;
}

// The elements of a part with each digit.
DI void count_part_sync(const Args& a) {
  __shared__ u32 counts[DIGITS];
  __shared__ u64 bits;
  const Part p = part_of(a);
  const Element* from = (const Element*)a.v[FROM];
  idx step = (idx)a.v[FROM_STEP], offset = 0, values = 0, positions = 0;
  if (a.v[PASS] == 0) {
    line_offsets(a, p.line, offset, values, positions);
    from += offset;
  } else {
    const Move move = move_of(a, p.line);
    if (!move.is_any) return;
    from = (const Element*)a.v[KEPT_ELEMENTS + (move.kept - 1) % 2] + p.line * (idx)a.v[ALONG];
    step = 1;
  }
  counts[threadIdx.x] = 0;
  __syncthreads();
  constexpr int V = 16 / sizeof(Element);
  const bool in_vectors = step == 1 && (u64)(from + p.begin) % 16 == 0;
  const idx rest = in_vectors ? p.begin + (p.end - p.begin) / V * V : p.begin;
  u64 differ = count_range<V>(a, from, 1, p.begin, rest, counts);
  differ |= count_range<1>(a, from, step, rest, p.end, counts);
  __syncthreads();
  const idx row = p.line * DIGITS + (idx)threadIdx.x;
  ((idx*)a.v[COUNTS])[row * (idx)a.v[PARTS] + p.part] = (idx)counts[threadIdx.x];
  if (a.v[PASS] == 0) {
    differ = any_bits_sync(differ, &bits);
    if (threadIdx.x == 0) ((u64*)a.v[PART_BITS])[blockIdx.x] = differ;
  }
}

// Replaces the counts of the parts of a line by those of the parts before, for each digit. Several lanes take
// a digit.
DI void scan_parts_sync(const Args& a) {
  __shared__ u64 bits;
  const int width = (int)a.v[WIDTH], lane = threadIdx.x % width;
  const idx parts = (idx)a.v[PARTS], first = (idx)blockIdx.x * (THREADS / width), line = first / DIGITS;
  const idx row = first + (idx)threadIdx.x / width;
  if (a.v[PASS] > 0 && !move_of(a, line).is_any) return;
  if (a.v[PASS] == 0 && first % DIGITS == 0) {
    u64 differ = 0;
    for (idx k = (idx)threadIdx.x; k < parts; k += THREADS) {
      differ |= ((const u64*)a.v[PART_BITS])[line * parts + k];
    }
    differ = any_bits_sync(differ, &bits);
    if (threadIdx.x == 0) ((u64*)a.v[LINE_BITS])[line] = differ;
  }
  idx* const counts = (idx*)a.v[COUNTS] + row * parts;
  idx before = 0;
  for (idx begin = 0; begin < parts; begin += 4 * width) {
    idx count[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const idx at = begin + k * width + lane;
      count[k] = at < parts ? counts[at] : 0;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const idx at = begin + k * width + lane;
      idx sum = count[k];
      for (int by = 1; by < width; by *= 2) {
        const idx other = __shfl_up_sync(ALL, sum, by, width);
        if (lane >= by) sum += other;
      }
      if (at < parts) counts[at] = before + sum - count[k];
      before += __shfl_sync(ALL, sum, width - 1, width);
    }
  }
  if (lane == 0) ((idx*)a.v[TOTALS])[row] = before;
}

// The elements and places of a line before a pass and after it.
struct Lines {
  const Element* from;
  const idx* from_places;
  Element* to;
  idx* to_places;
  i64* to_positions;
  // Steps along a line, the first place that is written, and the number of those.
  idx from_step, to_step, positions_step, first, wanted;
  int pass;
  bool is_first, is_last;
};
struct Tile {
  Element elements[TILE];
  idx places[POSITIONS ? TILE : 1];
  u32 counts[WARPS * DIGITS], sums[WARPS];
  idx shift[DIGITS];
};

// Moves the `valid` elements of a tile; IS_WHOLE if these are all. `next` is the place of the next element
// that has the number of this thread as its digit.
template <bool IS_WHOLE>
DI void move_tile_sync(const Args& a, const Lines& lines, Tile& shared, const idx tile, const u32 valid,
                       idx& next) {
  const int own = IS_WHOLE ? ITEMS : valid_slots(valid), numbers = IS_WHOLE ? ITEMS : valid_numbers(valid);
  const idx begin = tile + (idx)slot_of(0);
  const Element* const from = lines.from + begin * lines.from_step;
  Element x[ITEMS];
  u32 rank[ITEMS], start, count;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    x[k] = Element();
    if (k < own) x[k] = from[32 * k * lines.from_step];
  }
  // Elements wait in shared memory: registers are for ranks. Padding of the last tile stays last: it has the
  // largest digit and the last slots.
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    shared.elements[slot_of(k)] = x[k];
    rank[k] = k < own ? digit_of(key_of(a, x[k]), lines.pass) : 255;
  }
  rank_sync(rank, shared.counts, shared.sums, start, count);
  shared.shift[threadIdx.x] = next - (idx)start - lines.first;
  next += (idx)count;
#pragma unroll
  for (int k = 0; k < ITEMS; k++) x[k] = shared.elements[slot_of(k)];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) shared.elements[rank[k]] = x[k];
  if (POSITIONS) {
    idx place[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      place[k] = begin + 32 * k;
      if (!lines.is_first && k < own) place[k] = lines.from_places[begin + 32 * k];
    }
#pragma unroll
    for (int k = 0; k < ITEMS; k++) shared.places[rank[k]] = place[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const int slot = k * THREADS + (int)threadIdx.x;
    const Element y = shared.elements[slot];
    const idx place = (idx)slot + shared.shift[digit_of(key_of(a, y), lines.pass)];
    if (k < numbers && place >= 0 && place < lines.wanted) {
      if (VALUES || !lines.is_last) lines.to[place * lines.to_step] = y;
      if (POSITIONS && lines.is_last) lines.to_positions[place * lines.positions_step] = (i64)shared.places[slot];
      if (POSITIONS && !lines.is_last) lines.to_places[place] = shared.places[slot];
    }
  }
}

// Moves the elements of a part to their places in the order of digits.
DI void move_part_sync(const Args& a) {
  __shared__ __align__(16) Tile shared;
  __shared__ idx totals[WARPS];
  const Part p = part_of(a);
  const Move move = move_of(a, p.line);
  if (!move.is_any) return;
  idx from = 0, values = 0, positions = 0;
  if (move.is_first || move.is_last) line_offsets(a, p.line, from, values, positions);
  const int source = (move.kept + 1) % 2, target = move.kept % 2;
  const idx kept = p.line * (idx)a.v[ALONG], row = p.line * DIGITS + (idx)threadIdx.x;
  Lines lines;
  lines.from =
      (const Element*)a.v[move.is_first ? FROM : KEPT_ELEMENTS + source] + (move.is_first ? from : kept);
  lines.from_step = move.is_first ? (idx)a.v[FROM_STEP] : 1;
  lines.from_places = (const idx*)a.v[KEPT_POSITIONS + source] + kept;
  lines.to =
      (Element*)a.v[move.is_last ? TO_VALUES : KEPT_ELEMENTS + target] + (move.is_last ? values : kept);
  lines.to_step = move.is_last ? (idx)a.v[VALUES_STEP] : 1;
  lines.to_places = (idx*)a.v[KEPT_POSITIONS + target] + kept;
  lines.to_positions = (i64*)a.v[TO_POSITIONS] + positions;
  lines.positions_step = (idx)a.v[POSITIONS_STEP];
  lines.first = move.is_last ? (idx)a.v[FIRST] : 0;
  lines.wanted = (idx)a.v[move.is_last ? KEEP : ALONG];
  lines.pass = (int)a.v[PASS];
  lines.is_first = move.is_first;
  lines.is_last = move.is_last;
  idx next = before_sync(((const idx*)a.v[TOTALS])[row], totals);
  next += ((const idx*)a.v[COUNTS])[row * (idx)a.v[PARTS] + p.part];
  idx tile = p.begin;
  for (; tile + TILE <= p.end; tile += TILE) move_tile_sync<true>(a, lines, shared, tile, TILE, next);
  if (tile < p.end) move_tile_sync<false>(a, lines, shared, tile, (u32)(p.end - tile), next);
}
