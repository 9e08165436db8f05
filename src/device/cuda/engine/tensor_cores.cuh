// Products of 16-bit floats on tensor cores. `product_mma.rs` defines idx, and the number ROWS and COLUMNS
// of sums of a block, before this text, and the kernel after it. Each of the eight warps has 32 columns, and
// DOWN times 16 rows: four times DOWN products of 16 rows and 8 columns, whose sums are four numbers in each
// lane.
constexpr int DEPTH = 32, THREADS = 256, ACROSS = 4;
constexpr int DOWN = ROWS * COLUMNS / (THREADS / 32 * ACROSS * 8 * 16);
DI int warp_row() { return (int)threadIdx.x / 32 / (COLUMNS / 32) * DOWN * 16; }
DI int warp_column() { return (int)threadIdx.x / 32 % (COLUMNS / 32) * 32; }

// Eight elements of a panel; and in flight: as one access, or one by one.
typedef Pack<u32, 4> Chunk;
template <bool VECTORS> struct Flight { u16 e[8]; };
template <> struct Flight<true> { u32 e[4]; };

// A panel of an operand in shared memory: WIDTH rows (or columns) at DEPTH positions along the summed axes,
// in lines of chunks. A thread loads chunks. Neighboring threads load neighbors along the summed axes
// (BY_DEPTH) or across them. With VECTORS neighbors are contiguous in memory, and a chunk is one access;
// else a chunk is of the other direction. Chunks change places within a line, so that eight neighbors of one
// line, and those at one place of eight neighboring lines, are in different banks.
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

  // The chunks of this thread, of which it loads elements or whole chunks.
  typedef Flight<VECTORS> Next;

  // Loads them, by the offsets of rows and of positions. No step uses the elements before `write`: they
  // arrive while the panel before is multiplied.
  DI_MEMBER void read(Next* next, const u16* from, const idx* of_rows, const idx* of_positions) {
    const idx* const of_lines = TRANSPOSED ? of_positions : of_rows;
    const idx* const of_chunks = TRANSPOSED ? of_rows : of_positions;
#pragma unroll
    for (int q = 0; q < LOADS; q++) {
      const idx line = of_lines[line_of(q)];
      const idx* const offsets = of_chunks + 8 * chunk_of(q);
      if constexpr (VECTORS) {
        load<u32, 4>(next[q].e, (const u32*)(from + (line + offsets[0])));
      } else {
        idx at[8];
        load<idx, 4>(at, offsets);
        load<idx, 4>(at + 4, offsets + 4);
#pragma unroll
        for (int e = 0; e < 8; e++) next[q].e[e] = from[line + at[e]];
      }
    }
  }

  // The elements at positions from `count` on become 0.
  DI_MEMBER void clear(Next* next, int count) {
#pragma unroll
    for (int q = 0; q < LOADS; q++)
#pragma unroll
      for (int e = 0; e < (VECTORS ? 4 : 8); e++)
        if ((TRANSPOSED ? line_of(q) : 8 * chunk_of(q) + (VECTORS ? 0 : e)) >= count) next[q].e[e] = 0;
  }

  DI_MEMBER void write(Chunk* panel, const Next* next) {
#pragma unroll
    for (int q = 0; q < LOADS; q++) {
      Chunk chunk;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if constexpr (VECTORS) chunk.e[e] = next[q].e[e];
        else chunk.e[e] = next[q].e[2 * e] | (u32)next[q].e[2 * e + 1] << 16;
      }
      panel[place(line_of(q), chunk_of(q))] = chunk;
    }
  }

  // The fragment of 16 rows from `first` on, at the 16 positions of a step, in registers of 8 rows at 8
  // positions. The second register is of the next rows, or, of a right operand, of the next positions.
  DI_MEMBER void fragment_sync(u32* to, const Chunk* panel, int first, int step, bool is_right) {
    const int lane = threadIdx.x % 32, second = lane / 8 % 2, third = lane / 16;
    const int row = first + 8 * (is_right ? third : second), k = 16 * step + 8 * (is_right ? second : third);
    if constexpr (TRANSPOSED) ldmatrix_transposed_sync(to, panel + place(k + lane % 8, row / 8));
    else ldmatrix_sync(to, panel + place(row + lane % 8, k / 8));
  }
};

DI void mma_sync(f32* sum, const u32* a, const u32* b, f16) { mma_f16_sync(sum, a, b); }
DI void mma_sync(f32* sum, const u32* a, const u32* b, bf16) { mma_bf16_sync(sum, a, b); }

// Adds the products of two panels to the sums of this warp.
template <class T, class LEFT, class RIGHT>
DI void multiply_sync(f32 (&sum)[DOWN][ACROSS][4], const Chunk* left, const Chunk* right) {
#pragma unroll
  for (int step = 0; step < DEPTH / 16; step++) {
    u32 l[DOWN][4], r[ACROSS / 2][4];
#pragma unroll
    for (int i = 0; i < DOWN; i++) LEFT::fragment_sync(l[i], left, warp_row() + 16 * i, step, false);
#pragma unroll
    for (int j = 0; j < ACROSS / 2; j++)
      RIGHT::fragment_sync(r[j], right, warp_column() + 16 * j, step, true);
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
      for (int j = 0; j < ACROSS; j++) mma_sync(sum[i][j], l[i], r[j / 2] + j % 2 * 2, T());
  }
}

// Writes the sums of this warp that are among `height` rows and `width` columns. With PAIRS two neighboring
// columns are one access.
template <bool PAIRS, class OUT>
DI void write_sums(OUT* out, const f32 (&sum)[DOWN][ACROSS][4], const idx* of_rows, const idx* of_columns,
                   idx height, idx width) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2 * DOWN; i++) {
    const int row = warp_row() + 8 * i + lane / 4;
    if (row >= height) continue;
    OUT* const line = out + of_rows[row];
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
      const int column = warp_column() + 8 * j + lane % 4 * 2;
      const f32* const two = sum[i / 2][j] + i % 2 * 2;
      const OUT pair[2] = {cast<OUT>(two[0]), cast<OUT>(two[1])};
      if constexpr (PAIRS) {
        if (column < width) store<OUT, 2>(line + of_columns[column], pair);
      } else {
        if (column < width) line[of_columns[column]] = pair[0];
        if (column + 1 < width) line[of_columns[column + 1]] = pair[1];
      }
    }
  }
}
