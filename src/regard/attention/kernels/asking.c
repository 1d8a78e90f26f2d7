/* Attention of a few queries over their keys on the CPU, a query of a head at a time. Compiled on demand; see compiling.py.

   Only keys that a query may look at are read, and a query comes out the same whatever others there are. */

#include <float.h>
#include <math.h>

typedef float lanes __attribute__((vector_size(64), aligned(4)));

static inline float summed(lanes x)
{
    typedef float half __attribute__((vector_size(32)));
    typedef float quarter __attribute__((vector_size(16)));
    union { lanes all; half parts[2]; } whole = {x};
    union { half all; quarter parts[2]; } less = {whole.parts[0] + whole.parts[1]};
    quarter four = less.parts[0] + less.parts[1];
    return (four[0] + four[1]) + (four[2] + four[3]);
}

static inline __attribute__((always_inline)) float product(const float *a, const float *b, long width)
{
    lanes sums = {0};
    long d = 0;
    for (; d + 16 <= width; d += 16) sums += *(const lanes *)(a + d) * *(const lanes *)(b + d);
    float sum = summed(sums);
    for (; d < width; d++) sum += a[d] * b[d];
    return sum;
}

/* One query over some of the keys. */
static inline __attribute__((always_inline)) void ask_one(
    const float *query, const float *key, const float *value, const int *place, long seen, float *out, float *score,
    float scale, long width, long values, long key_step, long value_step)
{
    float top = -FLT_MAX, total = 0.0f;
    for (long j = 0; j < seen; j++) score[j] = product(query, key + place[j] * key_step, width) * scale;
    for (long j = 0; j < seen; j++) top = score[j] > top ? score[j] : top;
    for (long j = 0; j < seen; j++) score[j] = expf(score[j] - top);
    for (long j = 0; j < seen; j++) total += score[j];
    float share = 1.0f / total;
    long d = 0;
    for (; d + 64 <= values; d += 64) {
        lanes a = {0}, b = {0}, c = {0}, e = {0};
        for (long j = 0; j < seen; j++) {
            const lanes *one = (const lanes *)(value + place[j] * value_step + d);
            a += score[j] * one[0], b += score[j] * one[1], c += score[j] * one[2], e += score[j] * one[3];
        }
        lanes *to = (lanes *)(out + d);
        to[0] = a * share, to[1] = b * share, to[2] = c * share, to[3] = e * share;
    }
    for (; d < values; d++) {
        float sum = 0.0f;
        for (long j = 0; j < seen; j++) sum += score[j] * value[place[j] * value_step + d];
        out[d] = sum * share;
    }
}

/* softmax(scale · q kᵀ) v over the keys where `added` is 0, for q [sources, heads, queries, width] and k, v [sources,
   heads / group, keys, width], whose last axes are dense. `added` may be null. `scores` and `places` have room for every
   pair and one more. The steps from one to the next: q by source, head and query; k; v; added by source and query; out. */
void ask(const float *q, const float *k, const float *v, const float *added, float *out, float *scores, int *places,
         float scale, long sources, long heads, long group, long queries, long keys, long width, long values,
         const long *steps)
{
#pragma omp parallel for collapse(2) if (sources * heads * queries * keys * width > 65536)
    for (long s = 0; s < sources; s++)
        for (long h = 0; h < heads; h++)
            for (long i = 0; i < queries; i++) {
                const float *query = q + s * steps[0] + h * steps[1] + i * steps[2];
                const float *key = k + s * steps[3] + h / group * steps[4];
                const float *value = v + s * steps[6] + h / group * steps[7];
                const float *more = added ? added + s * steps[9] + i * steps[10] : 0;
                float *mixed = out + s * steps[11] + h * steps[12] + i * steps[13];
                long pair = ((s * heads + h) * queries + i) * (keys + 1), seen = 0;
                float *score = scores + pair;
                int *place = places + pair;
                for (long j = 0; j < keys; j++) { /* without a branch: who may look where has no pattern */
                    place[seen] = (int)j;
                    seen += !more || more[j] == 0.0f;
                }
                if (width == 64 && values == 64) /* the width of most heads, for which loops are unrolled */
                    ask_one(query, key, value, place, seen, mixed, score, scale, 64, 64, steps[5], steps[8]);
                else
                    ask_one(query, key, value, place, seen, mixed, score, scale, width, values, steps[5], steps[8]);
            }
}
