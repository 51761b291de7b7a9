// The instructions of AMX that the kernels use, one element at a time, for processors without them.
// Included before a kernel's own text, whose <immintrin.h> then changes nothing.
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbssd

static _Thread_local struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes_of_row[16];
  uint8_t rows[16];
} shapes;
static _Thread_local uint8_t tiles[8][16][64];

static void emulated_config(const void *source) {
  memcpy(&shapes, source, sizeof shapes);
}

// As the hardware does, refuse an instruction on a tile without a shape.
static void require_shape(int tile) {
  if (shapes.palette != 1 || shapes.rows[tile] != 16 || shapes.bytes_of_row[tile] != 64) {
    __builtin_trap();
  }
}

static void emulated_load(int tile, const void *source, int64_t stride) {
  require_shape(tile);
  for (int row = 0; row < 16; ++row) {
    memcpy(tiles[tile][row], (const char *)source + row * stride, 64);
  }
}

static void emulated_store(int tile, void *target, int64_t stride) {
  require_shape(tile);
  for (int row = 0; row < 16; ++row) {
    memcpy((char *)target + row * stride, tiles[tile][row], 64);
  }
}

static float brain(const uint8_t *element) {
  uint16_t half;
  memcpy(&half, element, sizeof half);
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void emulated_zero(int tile) {
  require_shape(tile);
  memset(tiles[tile], 0, sizeof tiles[tile]);
}

static void emulated_bf16(int sums, int a, int b) {
  require_shape(sums), require_shape(a), require_shape(b);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum;
      memcpy(&sum, &tiles[sums][m][4 * n], sizeof sum);
      for (int k = 0; k < 32; ++k) {
        sum += brain(&tiles[a][m][2 * k]) * brain(&tiles[b][k / 2][4 * n + 2 * (k % 2)]);
      }
      memcpy(&tiles[sums][m][4 * n], &sum, sizeof sum);
    }
  }
}

static void emulated_int8(int sums, int a, int b) {
  require_shape(sums), require_shape(a), require_shape(b);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      int32_t sum;
      memcpy(&sum, &tiles[sums][m][4 * n], sizeof sum);
      for (int k = 0; k < 64; ++k) {
        sum += (int8_t)tiles[a][m][k] * (int8_t)tiles[b][k / 4][4 * n + k % 4];
      }
      memcpy(&tiles[sums][m][4 * n], &sum, sizeof sum);
    }
  }
}

#define _tile_loadconfig(source) emulated_config(source)
#define _tile_release() memset(&shapes, 0, sizeof shapes)
#define _tile_loadd(tile, source, stride) emulated_load(tile, source, stride)
#define _tile_stored(tile, target, stride) emulated_store(tile, target, stride)
#define _tile_zero(tile) emulated_zero(tile)
#define _tile_dpbf16ps(sums, a, b) emulated_bf16(sums, a, b)
#define _tile_dpbssd(sums, a, b) emulated_int8(sums, a, b)
