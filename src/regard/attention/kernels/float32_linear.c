/* A linear map in float32, whose weights are laid out in the order in which they are read.

   Every sum is taken over the inputs in their order, DEPTH at a time, with fused multiply-adds: a row's result does not
   depend on the other rows, and all instruction sets that have this kernel (AVX2 and up) give the same bits. */

#include "lanes.h"
#include "registers.h"

#ifdef __FMA__

enum { PANEL = 32, SPAN = SIDE * WIDE }; /* outputs of a panel, and how many of them are computed together */
/* Inputs whose products are summed before they are added to the others, so that errors grow slower; and where a row is. */
enum { DEPTH = 256, STEP = DEPTH + 16 };

struct job {
    long rows, width, outputs, turns;
    int rectify;
    const float *x, *panels, *bias;
    float *apart, *y;
};

/* The first row of a turn. */
static long begin(const struct job *job, long turn) { return turn * job->rows / job->turns; }

/* DEPTH inputs of every row, then the next. A gap behind them keeps rows in different places of the cache. */
static void some_rows(const void *given, long from, long to)
{
    struct job job = *(const struct job *)given;
    for (long r = from; r < to; r++)
        for (long k = 0; k < job.width; k += DEPTH) {
            long depth = job.width - k < DEPTH ? job.width - k : DEPTH;
            const float *x = job.x + r * job.width + k;
            float *apart = job.apart + (k / DEPTH * job.rows + r) * STEP;
            if (job.rectify)
                for (long i = 0; i < depth; i++) apart[i] = x[i] < 0.0f ? 0.0f : x[i];
            else
                memcpy(apart, x, depth * sizeof *x);
        }
}

/* What a bundle of rows makes of SPAN outputs of a panel and of `depth` inputs, added to y; the first inputs begin with the
   bias. */
INLINE void tile(const int count, const float *x, long depth, const float *weights, const float *bias, int first, long left,
                 float *y, long outputs)
{
    wide sums[BUNDLE][SIDE];
    multiplied(count, SIDE, x, STEP, 1, depth, weights, PANEL, sums);
    long here = left < SPAN ? left : SPAN;
    float before[SPAN] = {0}, after[SPAN];
    if (first && bias) memcpy(before, bias, here * sizeof *bias);
#pragma GCC unroll 12
    for (int r = 0; r < count; r++) {
        float *to = y + r * outputs, *from = first ? before : to;
        if (here == SPAN) {
            STORE(to, sums[r][0] + LOAD(from));
            STORE(to + WIDE, sums[r][1] + LOAD(from + WIDE));
            continue;
        }
        STORE(after, sums[r][0]);
        STORE(after + WIDE, sums[r][1]);
        for (long o = 0; o < here; o++) to[o] = after[o] + from[o];
    }
}

static void some_panels(const void *given, long start, long stop)
{
    struct job job = *(const struct job *)given;
    for (long p = start; p < stop; p++)
        for (long k = 0; k < job.width || !k; k += DEPTH)
            for (long at = p * PANEL; at < (p + 1) * PANEL && at < job.outputs; at += SPAN) {
                const float *weights = job.panels + (p * job.width + k) * PANEL + at % PANEL;
                const float *bias = job.bias ? job.bias + at : 0;
                long depth = job.width - k < DEPTH ? job.width - k : DEPTH, left = job.outputs - at;
                for (long t = 0; t < job.turns; t++) {
                    long from = begin(&job, t), count = begin(&job, t + 1) - from;
                    const float *x = job.apart + (k / DEPTH * job.rows + from) * STEP;
                    float *y = job.y + from * job.outputs + at;
#define CASE(count)                                                                \
    case count:                                                                    \
        tile(count, x, depth, weights, bias, k == 0, left, y, job.outputs);        \
        break;
                    switch (count) {
                        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if __AVX512F__
                        CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
                    }
                }
            }
}

/* y = x Wᵀ + bias, or max(x, 0) Wᵀ + bias. `panels` holds 32 outputs at a time, those of an input side by side; `space` has
   place for 272 numbers of every row for each 256 inputs. */
void NAMED(float32_linear)(const float *x, long rows, long width, int rectify, const float *panels, long outputs,
                           const float *bias, float *space, float *y)
{
    long panel_count = (outputs + PANEL - 1) / PANEL, turns = (rows + BUNDLE - 1) / BUNDLE;
    struct job job = {rows, width, outputs, turns, rectify, x, panels, bias, space, y};
    in_parallel(some_rows, &job, rows, rows * width > 32768);
    in_parallel(some_panels, &job, panel_count, rows * width * outputs > 65536);
}

#endif
