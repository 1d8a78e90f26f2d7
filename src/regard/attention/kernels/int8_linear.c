/* A linear map in whole numbers: rows become bytes, are multiplied by weights that are bytes, and are scaled back.

   The sums are exact, so a row's result does not depend on the other rows, to the bit. Compiled only where the
   instruction set adds up four products of bytes at once (AVX-512 VNNI). */

#include "lanes.h"

#ifdef __AVX512VNNI__

#include <immintrin.h>

enum { BUNDLE = 12, PANEL = 32 }; /* rows and outputs whose sums are in registers together */

void NAMED(quantise)(const float *x, long rows, long width, float tiny, int turn, int rectify, uint8_t *bytes,
                     float *largest);

/* Four numbers of each of `count` rows side by side, then the next four, and 128 times the sum of each row. */
static void bundle(const int8_t *plain, int count, long width, long padded, int8_t *to, int32_t *shift)
{
    for (int r = 0; r < count; r++) {
        const int8_t *from = plain + r * width;
        int32_t sum = 0;
        for (long k = 0; k < width; k++) sum += from[k];
        shift[r] = 128 * sum;
        long whole = width & ~3L;
        for (long k = 0; k < whole; k += 4) memcpy(to + k * count + 4 * r, from + k, 4);
        if (whole < padded) {
            memset(to + whole * count + 4 * r, 0, 4);
            memcpy(to + whole * count + 4 * r, from + whole, width - whole);
        }
    }
}

/* What a bundle of rows makes of a panel of weights: Σ x (w + 128) − 128 Σ x, scaled back.
   With the intrinsic in the place of the assembly, gcc copies the sums about and takes twice as long. */
static inline __attribute__((always_inline)) void tile(
    const int count, const int8_t *x, long padded, const uint8_t *panel, const int32_t *shift, const float *largest,
    const float *scale, const float *bias, long left, float *y, long outputs)
{
    __m512i sums[BUNDLE][2];
#pragma GCC unroll 12
    for (int r = 0; r < count; r++) sums[r][0] = sums[r][1] = _mm512_set1_epi32(-shift[r]);
    for (long k = 0; k < padded; k += 4, panel += 4 * PANEL, x += 4 * count) {
        __m512i a = _mm512_loadu_si512(panel), b = _mm512_loadu_si512(panel + 64);
#pragma GCC unroll 12
        for (int r = 0; r < count; r++) {
            int32_t bits;
            memcpy(&bits, x + 4 * r, 4);
            __m512i four = _mm512_set1_epi32(bits);
            __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[r][0]) : "v"(a), "v"(four));
            __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[r][1]) : "v"(b), "v"(four));
        }
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        long here = left - 16 * half;
        __mmask16 some = here >= 16 ? 0xffff : here > 0 ? (1u << here) - 1 : 0;
        __m512 by = _mm512_maskz_loadu_ps(some, scale + 16 * half);
#pragma GCC unroll 12
        for (int r = 0; r < count; r++) {
            __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][half]), by);
            scaled = _mm512_mul_ps(scaled, _mm512_set1_ps(largest[r]));
            if (bias) scaled = _mm512_add_ps(scaled, _mm512_maskz_loadu_ps(some, bias + 16 * half));
            _mm512_mask_storeu_ps(y + r * outputs + 16 * half, some, scaled);
        }
    }
}

struct job {
    long rows, width, padded, outputs, turns;
    const uint8_t *panels;
    const float *scale, *bias;
    int32_t *shift;
    float *largest, *y;
    int8_t *bundled, *plain;
};

static void some_bundles(const void *given, long start, long stop)
{
    struct job job = *(const struct job *)given;
    for (long t = start; t < stop; t++) {
        long from = t * job.rows / job.turns, to = (t + 1) * job.rows / job.turns;
        bundle(job.plain + from * job.width, (int)(to - from), job.width, job.padded, job.bundled + from * job.padded,
               job.shift + from);
    }
}

static void some_panels(const void *given, long start, long stop)
{
    struct job job = *(const struct job *)given;
    for (long p = start; p < stop; p++) {
        const uint8_t *panel = job.panels + p * PANEL * job.padded;
        long at = p * PANEL, left = job.outputs - at;
        for (long t = 0; t < job.turns; t++) {
            long from = t * job.rows / job.turns, to = (t + 1) * job.rows / job.turns;
#define CASE(count)                                                                                             \
    case count:                                                                                                 \
        tile(count, job.bundled + from * job.padded, job.padded, panel, job.shift + from, job.largest + from,   \
             job.scale + at, job.bias ? job.bias + at : 0, left, job.y + from * job.outputs + at, job.outputs); \
        break;
            switch (to - from) {
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
                CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
            }
        }
    }
}

/* y = x Wᵀ · scale + bias. `panels` holds w + 128 for 32 outputs at a time, four inputs side by side; `space` has
   place for rows · (width + padded + 8) bytes, where padded is the width rounded up to 4. */
void NAMED(int8_linear)(const float *x, long rows, long width, float tiny, int rectify, const uint8_t *panels,
                        long outputs, const float *scale, const float *bias, void *space, float *y)
{
    long padded = (width + 3) & ~3L, panel_count = (outputs + PANEL - 1) / PANEL, turns = (rows + BUNDLE - 1) / BUNDLE;
    int32_t *shift = space;
    float *largest = (float *)(shift + rows);
    int8_t *bundled = (int8_t *)(largest + rows), *plain = bundled + rows * padded;
    struct job job = {rows, width, padded, outputs, turns, panels, scale, bias, shift, largest, y, bundled, plain};
    NAMED(quantise)(x, rows, width, tiny, 128, rectify, (uint8_t *)plain, largest);
    in_parallel(some_bundles, &job, turns, rows * width > 32768);
    in_parallel(some_panels, &job, panel_count, rows * width * outputs > 131072);
}

#endif
