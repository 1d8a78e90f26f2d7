/* Attention of a few queries over their keys, a query of a head at a time.

   Only keys that a query may look at are read, and a query's result does not depend on the other queries. */

#include "lanes.h"

struct job {
    const float *q, *k, *v, *added;
    float *out, *scores;
    int *places;
    float scale;
    long heads, group, queries, keys, width, values;
    const long *steps;
};

INLINE float product(const float *a, const float *b, long width)
{
    numbers sums[PARTS] = {0};
    long d = 0;
    for (; d + LANES <= width; d += LANES)
        EACH_PART sums[p] += ((const numbers *)(a + d))[p] * ((const numbers *)(b + d))[p];
    float sum = summed(sums);
    for (; d < width; d++) sum += a[d] * b[d];
    return sum;
}

/* Σ score · value / total, for as many numbers as `parts` registers hold. */
INLINE void mix(const int parts, const float *value, const int *place, long seen, const float *score, float share,
                float *out, long value_step)
{
    numbers sums[4 * PARTS] = {0};
    for (long j = 0; j < seen; j++) {
        const numbers *one = (const numbers *)(value + place[j] * value_step);
#pragma GCC unroll 16
        for (int p = 0; p < parts; p++) sums[p] += score[j] * one[p];
    }
#pragma GCC unroll 16
    for (int p = 0; p < parts; p++) ((numbers *)out)[p] = sums[p] * share;
}

/* One query over some of the keys. */
INLINE void attend_one(const float *query, const float *key, const float *value, const int *place, long seen, float *out,
                       float *score, float scale, long width, long values, long key_step, long value_step)
{
    for (long j = 0; j < seen; j++) score[j] = product(query, key + place[j] * key_step, width) * scale;
    float share = 1.0f / sum_of_exponentials(score, seen, largest_of(score, seen, -FLT_MAX), score);
    long d = 0;
    for (; d + 4 * LANES <= values; d += 4 * LANES) mix(4 * PARTS, value + d, place, seen, score, share, out + d, value_step);
    for (; d + LANES <= values; d += LANES) mix(PARTS, value + d, place, seen, score, share, out + d, value_step);
    for (; d < values; d++) {
        float sum = 0.0f;
        for (long j = 0; j < seen; j++) sum += score[j] * value[place[j] * value_step + d];
        out[d] = sum * share;
    }
}

/* The queries of some heads, counted over all sources. */
static void some_heads(const void *given, long from, long to)
{
    struct job job = *(const struct job *)given;
    const long *steps = job.steps;
    for (long at = from; at < to; at++)
        for (long i = 0; i < job.queries; i++) {
            long s = at / job.heads, h = at % job.heads, pair = (at * job.queries + i) * (job.keys + 1), seen = 0;
            const float *query = job.q + s * steps[0] + h * steps[1] + i * steps[2];
            const float *key = job.k + s * steps[3] + h / job.group * steps[4];
            const float *value = job.v + s * steps[6] + h / job.group * steps[7];
            const float *added = job.added ? job.added + s * steps[9] + h * steps[10] + i * steps[11] : 0;
            float *out = job.out + s * steps[12] + h * steps[13] + i * steps[14], *score = job.scores + pair;
            int *place = job.places + pair;
            for (long j = 0; j < job.keys; j++) { /* without a branch: a mask has no pattern to predict */
                place[seen] = (int)j;
                seen += !added || added[j] == 0.0f;
            }
            if (job.width == 64 && job.values == 64) /* the width of most heads, for which loops are unrolled */
                attend_one(query, key, value, place, seen, out, score, job.scale, 64, 64, steps[5], steps[8]);
            else
                attend_one(query, key, value, place, seen, out, score, job.scale, job.width, job.values, steps[5], steps[8]);
        }
}

/* softmax(scale · q kᵀ) v over the keys where `added` is 0, for q [sources, heads, queries, width] and k, v [sources,
   heads / group, keys, width], whose last axes are dense. `added` may be null. `scores` and `places` have space for every
   pair and one more. The steps from one to the next: q by source, head and query; k; v; added by source, head and query; out. */
void NAMED(small_queries)(const float *q, const float *k, const float *v, const float *added, float *out, float *scores,
                          int *places, float scale, long sources, long heads, long group, long queries, long keys,
                          long width, long values, const long *steps)
{
    struct job job = {q, k, v, added, out, scores, places, scale, heads, group, queries, keys, width, values, steps};
    in_parallel(some_heads, &job, sources * heads, sources * heads * queries * keys * width > 65536);
}
