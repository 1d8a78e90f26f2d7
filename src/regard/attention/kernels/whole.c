/* A linear map in whole numbers: rows become bytes, are multiplied by weights that are bytes, and are scaled back.

   The sums are exact, so a row comes out the same, to the bit, however many there are. Needs instructions that add up
   four products of bytes at once (AVX-512 VNNI); elsewhere nothing of this is here, and whoever asks is told so. */

#include <stdint.h>
#include <string.h>

#ifndef __AVX512VNNI__

int multiplies(void) { return 0; }
void linear(void) {}

#else

#include <immintrin.h>

enum { BUNDLE = 12, PANEL = 32 }; /* rows and outputs whose sums stand in registers together */

void quantise(const float *x, long rows, long width, float tiny, int turn, int rectify, uint8_t *bytes, float *largest);

int multiplies(void) { return 1; }

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

/* y = x Wᵀ · scale + bias. `panels` holds w + 128 for 32 outputs at a time, four inputs side by side; `room` has
   place for rows · (width + padded + 8) bytes, where padded is the width rounded up to 4. */
void linear(const float *x, long rows, long width, float tiny, int rectify, const uint8_t *panels, long outputs,
            const float *scale, const float *bias, void *room, float *y)
{
    long padded = (width + 3) & ~3L, parts = (outputs + PANEL - 1) / PANEL, turns = (rows + BUNDLE - 1) / BUNDLE;
    int32_t *shift = room;
    float *largest = (float *)(shift + rows);
    int8_t *bundled = (int8_t *)(largest + rows), *plain = bundled + rows * padded;
    quantise(x, rows, width, tiny, 128, rectify, (uint8_t *)plain, largest);
#pragma omp parallel for if (rows * width > 32768)
    for (long t = 0; t < turns; t++) {
        long from = t * rows / turns, to = (t + 1) * rows / turns;
        bundle(plain + from * width, (int)(to - from), width, padded, bundled + from * padded, shift + from);
    }
#pragma omp parallel for if (rows * width * outputs > 131072)
    for (long p = 0; p < parts; p++) {
        const uint8_t *panel = panels + p * PANEL * padded;
        long at = p * PANEL, left = outputs - at;
        for (long t = 0; t < turns; t++) {
            long from = t * rows / turns, to = (t + 1) * rows / turns;
#define CASE(count)                                                                                             \
    case count:                                                                                                 \
        tile(count, bundled + from * padded, padded, panel, shift + from, largest + from, scale + at,           \
             bias ? bias + at : 0, left, y + from * outputs + at, outputs);                                     \
        break;
            switch (to - from) {
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
                CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
            }
        }
    }
}

#endif
