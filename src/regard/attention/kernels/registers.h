/* The widest registers of floats, with fused multiply-adds, of the instruction sets that have these (AVX2 and up). */

#ifdef __FMA__

#include <immintrin.h>

/* How many rows are in registers together, with SIDE registers of sums each. */
#ifdef __AVX512F__
enum { BUNDLE = 12 };
typedef __m512 wide;
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define ALL_OF _mm512_set1_ps
#define PRODUCT_AND_SUM _mm512_fmadd_ps
#else
enum { BUNDLE = 6 };
typedef __m256 wide;
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define ALL_OF _mm256_set1_ps
#define PRODUCT_AND_SUM _mm256_fmadd_ps
#endif
enum { SIDE = 2 };

/* sums[r] = Σ_k x[r · row + k · step] w[k], for `count` rows and `side` registers of each w; the rows of w are `turn` apart. */
INLINE void multiplied(const int count, const int side, const float *x, const long row, const long step, long depth,
                       const float *w, long turn, wide sums[BUNDLE][SIDE])
{
#pragma GCC unroll 12
    for (int r = 0; r < count; r++)
        for (int s = 0; s < side; s++) sums[r][s] = ALL_OF(0.0f);
    for (long k = 0; k < depth; k++, w += turn, x += step) {
        wide a = LOAD(w), b = side > 1 ? LOAD(w + WIDE) : a;
#pragma GCC unroll 12
        for (int r = 0; r < count; r++) {
            wide one = ALL_OF(x[r * row]);
            sums[r][0] = PRODUCT_AND_SUM(a, one, sums[r][0]);
            if (side > 1) sums[r][1] = PRODUCT_AND_SUM(b, one, sums[r][1]);
        }
    }
}

#endif
