/* What the kernels share: sixteen numbers at a time, and work divided among threads.

   Every kernel is compiled once for each instruction set, as NAMED(kernel); see setup.py. Sums are taken in sixteen lanes
   in every case, and fused multiply-adds are used where a kernel names them or nowhere, so all instruction sets that have
   a kernel give the same bits. */

#include <float.h>
#include <stdint.h>
#include <string.h>

#define JOINED(name, level) name##_##level
#define EXPANDED(name, level) JOINED(name, level)
#define NAMED(name) EXPANDED(name, LEVEL)
#define INLINE static inline __attribute__((always_inline))

#if defined __AVX512F__
#define BYTES 64
#elif defined __AVX2__
#define BYTES 32
#else
#define BYTES 16
#endif

/* LANES numbers side by side are PARTS registers. */
enum { LANES = 16, WIDE = BYTES / 4, PARTS = LANES / WIDE };
typedef float numbers __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t whole_numbers __attribute__((vector_size(BYTES), aligned(4), may_alias));
#define EACH_PART _Pragma("GCC unroll 4") for (int p = 0; p < PARTS; p++)

/* work(job, from, to) for 0 … count − 1, on torch's threads where that is worth starting them. */
typedef void part(const void *job, long from, long to);
void in_parallel(part *work, const void *job, long count, int worth_threads);

/* The sum of LANES numbers: halves are added to one another, in the same order for registers of any width. */
INLINE float summed(const numbers *parts)
{
    typedef float four __attribute__((vector_size(16)));
#if BYTES == 64
    typedef float eight __attribute__((vector_size(32)));
    union { numbers all; eight halves[2]; } whole = {parts[0]};
    union { eight all; four halves[2]; } less = {whole.halves[0] + whole.halves[1]};
    four rest = less.halves[0] + less.halves[1];
#elif BYTES == 32
    union { numbers all; four halves[2]; } less = {parts[0] + parts[1]};
    four rest = less.halves[0] + less.halves[1];
#else
    four rest = (parts[0] + parts[2]) + (parts[1] + parts[3]);
#endif
    return (rest[0] + rest[2]) + (rest[1] + rest[3]);
}

/* mask ? a : b */
INLINE numbers chosen(whole_numbers mask, numbers a, numbers b)
{
    return (numbers)((mask & (whole_numbers)a) | (~mask & (whole_numbers)b));
}

/* The largest of `count` numbers and `least`; NaN is passed over. */
INLINE float largest_of(const float *x, long count, float least)
{
    numbers tops = least - (numbers){0};
    long i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        numbers some = *(const numbers *)(x + i);
        tops = chosen(some > tops, some, tops);
    }
    float top = least;
    for (int j = 0; j < WIDE; j++) top = tops[j] > top ? tops[j] : top;
    for (; i < count; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* eˣ of numbers that are not above 0: 2ⁿ eʳ with |r| ≤ ln 2 / 2 and the Taylor series of eʳ, to about 1e-7; 0 below −87. */
INLINE numbers exponentials(numbers x)
{
    const float ROUND = 12582912.0f; /* 1.5 · 2²³: adding it rounds to a whole number */
    const numbers zero = {0}, bottom = zero - 87.0f;
    whole_numbers normal = x > bottom;
    numbers bounded = chosen(normal, x, bottom);
    numbers turned = bounded * 1.44269504f + ROUND, n = turned - ROUND;
    numbers r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts; n times the first is exact */
    numbers power = zero + 1.0f / 5040;
    power = power * r + 1.0f / 720;
    power = power * r + 1.0f / 120;
    power = power * r + 1.0f / 24;
    power = power * r + 1.0f / 6;
    power = power * r + 0.5f;
    power = power * r + 1.0f;
    power = power * r + 1.0f;
    whole_numbers exponent = ((whole_numbers)turned - 0x4b400000 + 127) << 23; /* the bits of ROUND */
    return chosen(normal, power * (numbers)exponent, chosen(x != x, x, zero));
}

/* The sum of exp(x − top); the summands are written to `to` where it is not null. */
INLINE float sum_of_exponentials(const float *x, long count, float top, float *to)
{
    numbers sums[PARTS] = {0};
    long i = 0;
    for (; i + LANES <= count; i += LANES)
        EACH_PART {
            numbers some = exponentials(((const numbers *)(x + i))[p] - top);
            sums[p] += some;
            if (to) ((numbers *)(to + i))[p] = some;
        }
    if (i < count) {
        float rest[LANES];
        for (int j = 0; j < LANES; j++) rest[j] = i + j < count ? x[i + j] - top : -FLT_MAX; /* whose exponential is 0 */
        EACH_PART {
            numbers some = exponentials(((const numbers *)rest)[p]);
            sums[p] += some;
            ((numbers *)rest)[p] = some;
        }
        if (to) memcpy(to + i, rest, (count - i) * sizeof *to);
    }
    return summed(sums);
}
