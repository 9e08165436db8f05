// Products of 16-bit floats on tensor cores. The eight warps of a block, two down and four across, each have a
// part of its tile. `product_mma.rs` defines idx before this text, and the kernel after it.
constexpr int DEPTH = 32, THREADS = 256;

// Eight elements.
typedef Pack<u32, 4> Chunk;

// A panel of an operand in shared memory: WIDTH rows (or columns) at DEPTH positions along the summed axes, in
// lines of chunks. A thread loads chunks. Neighboring threads load neighbors along the summed axes (BY_DEPTH)
// or across them. With VECTORS neighbors are contiguous in memory, and a chunk is one access; else a chunk is
// of the other direction. Chunks change places within a line, so that eight neighbors of one line, and those at
// one place of eight neighboring lines, are in different banks.
template <int WIDTH, bool BY_DEPTH, bool VECTORS> struct Panel {
  // Whether lines are positions, not rows.
  static constexpr bool TRANSPOSED = BY_DEPTH != VECTORS;
  static constexpr int LINES = TRANSPOSED ? DEPTH : WIDTH, CHUNKS = WIDTH * DEPTH / 8 / LINES;
  static constexpr int LOADS = LINES * CHUNKS / THREADS;

  DI_MEMBER int place(int line, int chunk) {
    return line * CHUNKS + (chunk ^ (CHUNKS == 4 ? line >> 1 & 3 : line & 7));
  }
  // The line of a load of this thread, and the chunk within it.
  DI_MEMBER int line_of(int load) {
    const int n = (int)threadIdx.x + THREADS * load;
    return VECTORS ? n / CHUNKS : n % LINES;
  }
  DI_MEMBER int chunk_of(int load) {
    const int n = (int)threadIdx.x + THREADS * load;
    return VECTORS ? n % CHUNKS : n / LINES;
  }

  // Loads the chunks of this thread, by the offsets of rows and of positions.
  DI_MEMBER void read(Chunk* next, const u16* from, const idx* of_rows, const idx* of_positions) {
    const idx* const of_lines = TRANSPOSED ? of_positions : of_rows;
    const idx* const of_chunks = TRANSPOSED ? of_rows : of_positions;
#pragma unroll
    for (int q = 0; q < LOADS; q++) {
      const u16* const line = from + of_lines[line_of(q)];
      const idx* const offsets = of_chunks + 8 * chunk_of(q);
      if (VECTORS) {
        next[q] = *(const Chunk*)(line + offsets[0]);
      } else {
        idx at[8];
        load<idx, 4>(at, offsets);
        load<idx, 4>(at + 4, offsets + 4);
#pragma unroll
        for (int e = 0; e < 4; e++) next[q].e[e] = line[at[2 * e]] | (u32)line[at[2 * e + 1]] << 16;
      }
    }
  }

  // The elements at positions from `count` on become 0.
  DI_MEMBER void clear(Chunk* next, int count) {
#pragma unroll
    for (int q = 0; q < LOADS; q++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int k = TRANSPOSED ? line_of(q) : 8 * chunk_of(q) + 2 * e;
        next[q].e[e] &= k >= count ? 0u : TRANSPOSED || k + 1 < count ? 0xffffffffu : 0xffffu;
      }
  }

  DI_MEMBER void write(Chunk* panel, const Chunk* next) {
#pragma unroll
    for (int q = 0; q < LOADS; q++) panel[place(line_of(q), chunk_of(q))] = next[q];
  }

  // The fragment of 16 rows from `first` on, at the 16 positions of a step: those of 8 rows at 8 positions are
  // a register, and the next is 8 rows further.
  DI_MEMBER void fragment_sync(u32* to, const Chunk* panel, int first, int step) {
    const int lane = threadIdx.x % 32, second = lane / 8 % 2, third = lane / 16;
    if (TRANSPOSED)
      ldmatrix_transposed_sync(to, panel + place(16 * step + 8 * third + lane % 8, first / 8 + second));
    else
      ldmatrix_sync(to, panel + place(first + lane % 16, 2 * step + third));
  }
};

DI void mma_sync(f32* sum, const u32* a, const u32* b, f16) { mma_f16_sync(sum, a, b); }
DI void mma_sync(f32* sum, const u32* a, const u32* b, bf16) { mma_bf16_sync(sum, a, b); }

// Adds the products of two panels to the sums of this warp: DOWN times 16 rows, ACROSS times 8 columns.
template <class T, class LEFT, class RIGHT, int DOWN, int ACROSS>
DI void multiply_sync(f32 (&sum)[DOWN][ACROSS][4], const Chunk* left, const Chunk* right) {
  const int warp = threadIdx.x / 32, row = warp / 4 * DOWN * 16, column = warp % 4 * ACROSS * 8;
#pragma unroll
  for (int step = 0; step < DEPTH / 16; step++) {
    u32 l[DOWN][4], r[ACROSS / 2][4];
#pragma unroll
    for (int i = 0; i < DOWN; i++) LEFT::fragment_sync(l[i], left, row + 16 * i, step);
#pragma unroll
    for (int j = 0; j < ACROSS / 2; j++) RIGHT::fragment_sync(r[j], right, column + 16 * j, step);
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
      for (int j = 0; j < ACROSS; j++) {
        const u32 eight[2] = {r[j / 2][j % 2], r[j / 2][j % 2 + 2]};
        mma_sync(sum[i][j], l[i], eight, T());
      }
  }
}

// Writes the sums of this warp that are among `height` rows and `width` columns. With PAIRS two neighboring
// columns are one access.
template <bool PAIRS, class OUT, int DOWN, int ACROSS>
DI void write_sums(OUT* out, const f32 (&sum)[DOWN][ACROSS][4], const idx* of_rows, const idx* of_columns,
                   idx height, idx width) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2 * DOWN; i++) {
    const int row = warp / 4 * DOWN * 16 + 8 * i + lane / 4;
    if (row >= height) continue;
    OUT* const line = out + of_rows[row];
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
      const int column = (warp % 4 * ACROSS + j) * 8 + lane % 4 * 2;
      const f32* const two = sum[i / 2][j] + i % 2 * 2;
      const OUT pair[2] = {cast<OUT>(two[0]), cast<OUT>(two[1])};
      if (PAIRS) {
        if (column < width) store<OUT, 2>(line + of_columns[column], pair);
      } else {
        if (column < width) line[of_columns[column]] = pair[0];
        if (column + 1 < width) line[of_columns[column + 1]] = pair[1];
      }
    }
  }
}
