/* Attention of sequences over their own keys, forward and backward: softmax(scale · q kᵀ) v, where query i of a sequence sees
   the keys j of its own with low ≤ j − i ≤ high.

   Neither padding nor masked tiles are read, and nothing larger than the scores of some queries is held (Dao 2022, FlashAttention).
   Products are taken of copies in float32, whatever the tensors are; a sequence's result does not depend on the others. */

#include <math.h>
#include <stdlib.h>

#include "lanes.h"
#include "registers.h"

#ifdef __FMA__

enum {
    PANEL = 32,        /* keys side by side */
    KEYS = 512,        /* whose scores are in the cache together */
    MANY = 96,         /* queries that go over the same keys, forward */
    SOME = 48,         /* and backward */
    WIDEST = 256,      /* features */
    FAR = WIDEST + 16, /* from one row of features to the next: an odd number of lines, for different places of the cache */
    ACROSS = KEYS + 16 /* from one row of scores to the next */
};

/* The steps of a tensor [batch, heads, positions, features], whose features are side by side. */
struct tensor {
    void *data;
    long batch, head, row;
};

/* Of each sequence: its row of the batch, its first query, how many, its first key, how many. */
enum { BATCH, FIRST_QUERY, QUERIES, FIRST_KEY, COUNT_KEYS, FACTS };

struct job {
    struct tensor q, k, v, out, grad, to_q, to_k, to_v;
    float *sums; /* of each query the largest score, and 1 over the sum of exponentials of how far the others are from it */
    long heads, group, width, values, positions, sequences, low, high, parts;
    const long *facts;
    float scale;
    int half, backward; /* whether numbers are bfloat16; whether gradients are wanted */
    long uniform[2];    /* queries and keys of every row of the batch, where there are no facts */
    long *next;         /* item that no thread has taken */
};

static const char *place(const struct job *job, const struct tensor *x, long batch, long head, long row)
{
    return (const char *)x->data + (batch * x->batch + head * x->head + row * x->row) * (job->half ? 2 : 4);
}

/* Numbers of a row as float32, times a factor, filled up with zeros. */
static void read_row(const struct job *job, const char *from, long width, long filled, float factor, float *to)
{
    if (job->half) {
        const uint16_t *x = (const uint16_t *)from;
        for (long i = 0; i < width; i++) {
            uint32_t bits = (uint32_t)x[i] << 16;
            float one;
            memcpy(&one, &bits, 4);
            to[i] = one * factor;
        }
    } else {
        const float *x = (const float *)from;
        for (long i = 0; i < width; i++) to[i] = x[i] * factor;
    }
    for (long i = width; i < filled; i++) to[i] = 0.0f;
}

/* A row times a factor as the tensor holds it; bfloat16 is rounded to the nearest, of two equally near to the even one. */
static void write_row(const struct job *job, char *to, long width, float factor, const float *from)
{
    if (job->half) {
        uint16_t *y = (uint16_t *)to;
        for (long i = 0; i < width; i++) {
            float one = from[i] * factor;
            uint32_t bits;
            memcpy(&bits, &one, 4);
            y[i] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16); /* NaN stays NaN: its last bits come from bfloat16 */
        }
    } else {
        float *y = (float *)to;
        for (long i = 0; i < width; i++) y[i] = from[i] * factor;
    }
}

/* Rows of features as panels: a feature of PANEL rows side by side, then the next; zeros behind the last row. */
static void read_panels(const struct job *job, const struct tensor *x, long batch, long head, long first, long count,
                        long width, float *to)
{
    float row[WIDEST];
    for (long j = 0; j < (count + PANEL - 1) / PANEL * PANEL; j++) {
        float *column = to + j / PANEL * PANEL * width + j % PANEL;
        if (j < count) {
            read_row(job, place(job, x, batch, head, first + j), width, width, 1.0f, row);
            for (long i = 0; i < width; i++) column[i * PANEL] = row[i];
        } else
            for (long i = 0; i < width; i++) column[i * PANEL] = 0.0f;
    }
}

/* y [count, columns] = or += x w. Rows beyond an even number of them are computed too: there is space for a whole bundle. */
INLINE void product(long count, const float *x, const long row, const long step, long depth, const float *w, long turn,
                    long columns, float *y, long across, const int more)
{
    for (long c = 0; c < columns; c += SIDE * WIDE) {
        wide sums[BUNDLE][SIDE];
#define CASE(rows, side)                                                                  \
    multiplied(rows, side, x, row, step, depth, w + c, turn, sums);                       \
    _Pragma("GCC unroll 12") for (int r = 0; r < rows; r++) for (int s = 0; s < side; s++) \
    {                                                                                     \
        float *to = y + r * across + c + s * WIDE;                                        \
        if (more) sums[r][s] += LOAD(to);                                                 \
        STORE(to, sums[r][s]);                                                            \
    }
#define CASES(rows)                   \
    if (columns - c > WIDE) {         \
        CASE(rows, 2)                 \
    } else {                          \
        CASE(rows, 1)                 \
    }                                 \
    break;
        switch ((count + 1) / 2) {
        case 1: CASES(2)
        case 2: CASES(4)
        case 3: CASES(6)
#ifdef __AVX512F__
        case 4: CASES(8)
        case 5: CASES(10)
        case 6: CASES(12)
#endif
        }
    }
}

INLINE long least(long a, long b) { return a < b ? a : b; }
INLINE long most(long a, long b) { return a > b ? a : b; }
INLINE long filled(long width) { return (width + LANES - 1) / LANES * LANES; }

/* One sequence, and what its queries and keys may see of one another, counted from their first. */
struct sequence {
    long batch, query, queries, key, keys, low, high;
};

static struct sequence sequence_of(const struct job *job, long number)
{
    const long whole[FACTS] = {number, 0, job->uniform[0], 0, job->uniform[1]};
    const long *facts = job->facts ? job->facts + number * FACTS : whole;
    long apart = facts[FIRST_KEY] - facts[FIRST_QUERY];
    return (struct sequence){facts[BATCH],     facts[FIRST_QUERY], facts[QUERIES],   facts[FIRST_KEY],
                             facts[COUNT_KEYS], job->low - apart,   job->high - apart};
}

/* The keys from `start` to `stop` that query i sees. */
INLINE void seen(const struct sequence *of, long i, long start, long stop, long *from, long *to)
{
    *from = most(start, i + of->low), *to = least(stop, i + of->high + 1);
    if (*from > *to) *from = *to = start;
}

/* The keys of a block, in whole panels, that one of these queries sees; none where *from == *to. */
INLINE void panels_of(const struct sequence *of, long i, long count, long start, long stop, long *from, long *to)
{
    *from = most(start, i + of->low) / PANEL * PANEL;
    *to = (least(stop, i + count - 1 + of->high + 1) + PANEL - 1) / PANEL * PANEL;
    if (*from >= *to) *from = *to = start;
}

/* Scores of some queries and the keys of whole panels, the first of which is that of key `base`. */
INLINE void scores(long count, const float *queries, const float *panels, long base, long from, long to, long start,
                   long width, float *found)
{
    for (long j = from; j < to; j += PANEL)
        product(count, queries, FAR, 1, width, panels + (j - base) * width, PANEL, PANEL, found + j - start, ACROSS, 0);
}

/* y += x w, over the keys from `from` to `to`, DEPTH at a time, so that errors grow slower. */
INLINE void add_values(long count, const float *x, const float *w, long base, long from, long to, long start, long columns,
                       float *y)
{
    enum { DEPTH = 256 };
    for (long j = from; j < to; j += DEPTH)
        product(count, x + j - start, ACROSS, 1, least(DEPTH, to - j), w + (j - base) * columns, columns, columns, y, FAR, 1);
}

/* Space for each thread, in numbers. */
static long space_forward(const struct job *job, long keys)
{
    long whole = (keys + PANEL - 1) / PANEL * PANEL;
    return whole * job->width + keys * filled(job->values) + (MANY + BUNDLE) * 2 * FAR + BUNDLE * ACROSS + 64;
}

static void forward_one(const struct job *job, const struct sequence *of, long kv_head, long part, float *space)
{
    long columns = filled(job->values), blocks = (of->queries + MANY - 1) / MANY;
    long begin = blocks * part / job->parts, end = blocks * (part + 1) / job->parts;
    if (begin == end) return;
    /* The keys that these queries see. */
    long base = most(0, begin * MANY + of->low) / PANEL * PANEL, near = most(base, least(of->keys, end * MANY + of->high));
    float *panels = space, *values = panels + (near - base + PANEL - 1) / PANEL * PANEL * job->width;
    float *queries = values + (near - base) * columns, *mixed = queries + (MANY + BUNDLE) * FAR;
    float *found = mixed + (MANY + BUNDLE) * FAR;
    read_panels(job, &job->k, of->batch, kv_head, of->key + base, near - base, job->width, panels);
    for (long j = base; j < near; j++)
        read_row(job, place(job, &job->v, of->batch, kv_head, of->key + j), job->values, columns, 1.0f,
                 values + (j - base) * columns);
    for (long head = kv_head * job->group; head < (kv_head + 1) * job->group; head++)
        for (long b = begin; b < end; b++) {
            long first = b * MANY, count = least(MANY, of->queries - first);
            float tops[MANY], totals[MANY];
            for (long r = 0; r < count; r++) {
                read_row(job, place(job, &job->q, of->batch, head, of->query + first + r), job->width, job->width, job->scale,
                         queries + r * FAR);
                memset(mixed + r * FAR, 0, columns * sizeof *mixed);
                tops[r] = -FLT_MAX, totals[r] = 0.0f;
            }
            long start = most(0, first + of->low) / PANEL * PANEL, stop = least(of->keys, first + count + of->high);
            for (; start < stop; start += KEYS) {
                long last = least(stop, start + KEYS);
                for (long i = 0; i < count; i += BUNDLE) {
                    long rows = least(BUNDLE, count - i), from, to;
                    panels_of(of, first + i, rows, start, last, &from, &to);
                    if (from == to) continue;
                    scores(rows, queries + i * FAR, panels, base, from, to, start, job->width, found);
                    for (long r = 0; r < rows; r++) {
                        float *row = found + r * ACROSS, *sum = totals + i + r, *top = tops + i + r;
                        long near, far;
                        seen(of, first + i + r, start, last, &near, &far);
                        if (near == far) {
                            memset(row + from - start, 0, (to - from) * sizeof *row);
                            continue;
                        }
                        float highest = largest_of(row + near - start, far - near, *top);
                        if (highest > *top && *sum != 0.0f) {
                            float shrunk = expf(*top - highest), *all = mixed + (i + r) * FAR;
                            for (long c = 0; c < columns; c++) all[c] *= shrunk;
                            *sum *= shrunk;
                        }
                        *top = highest;
                        *sum += sum_of_exponentials(row + near - start, far - near, highest, row + near - start);
                        memset(row + from - start, 0, (near - from) * sizeof *row);
                        memset(row + far - start, 0, (to - far) * sizeof *row);
                    }
                    add_values(rows, found, values, base, from, least(to, last), start, columns, mixed + i * FAR);
                }
            }
            for (long r = 0; r < count; r++) {
                long row = of->query + first + r;
                long from, to;
                seen(of, first + r, 0, of->keys, &from, &to);
                float share = from == to ? 0.0f : 1.0f / totals[r]; /* NaN where all scores are −inf, as softmax has it */
                write_row(job, (char *)place(job, &job->out, of->batch, head, row), job->values, share, mixed + r * FAR);
                float *sums = job->sums + 2 * ((of->batch * job->heads + head) * job->positions + row);
                if (job->sums) sums[0] = tops[r], sums[1] = share;
            }
        }
}

static long space_backward(const struct job *job, long keys)
{
    long whole = (keys + PANEL - 1) / PANEL * PANEL, wide_keys = filled(job->width), wide_values = filled(job->values);
    return whole * (job->width + job->values + 2 * wide_keys + wide_values) + (SOME + BUNDLE) * 3 * FAR +
           (SOME + BUNDLE) * 2 * ACROSS + 64;
}

static void backward_one(const struct job *job, const struct sequence *of, long kv_head, float *space)
{
    enum { TOGETHER = BUNDLE > 8 ? 8 : 4 }; /* keys: they divide a panel */
    long whole = (of->keys + PANEL - 1) / PANEL * PANEL, wide_keys = filled(job->width), wide_values = filled(job->values);
    float *key_panels = space, *value_panels = key_panels + whole * job->width;
    float *keys = value_panels + whole * job->values, *to_keys = keys + whole * wide_keys;
    float *to_values = to_keys + whole * wide_keys, *queries = to_values + whole * wide_values;
    float *grads = queries + (SOME + BUNDLE) * FAR, *to_queries = grads + (SOME + BUNDLE) * FAR;
    float *weights = to_queries + (SOME + BUNDLE) * FAR, *slopes = weights + (SOME + BUNDLE) * ACROSS;
    float row[FAR];
    read_panels(job, &job->k, of->batch, kv_head, of->key, of->keys, job->width, key_panels);
    read_panels(job, &job->v, of->batch, kv_head, of->key, of->keys, job->values, value_panels);
    for (long j = 0; j < of->keys; j++)
        read_row(job, place(job, &job->k, of->batch, kv_head, of->key + j), job->width, wide_keys, 1.0f, keys + j * wide_keys);
    memset(to_keys, 0, whole * wide_keys * sizeof *to_keys);
    memset(to_values, 0, whole * wide_values * sizeof *to_values);
    for (long head = kv_head * job->group; head < (kv_head + 1) * job->group; head++)
        for (long first = 0; first < of->queries; first += SOME) {
            long count = least(SOME, of->queries - first);
            const float *sums[SOME];
            float inner[SOME];
            for (long r = 0; r < count; r++) {
                long at = of->query + first + r;
                read_row(job, place(job, &job->q, of->batch, head, at), job->width, wide_keys, job->scale, queries + r * FAR);
                read_row(job, place(job, &job->grad, of->batch, head, at), job->values, wide_values, 1.0f, grads + r * FAR);
                read_row(job, place(job, &job->out, of->batch, head, at), job->values, wide_values, 1.0f, row);
                memset(to_queries + r * FAR, 0, wide_keys * sizeof *to_queries);
                numbers both[PARTS] = {0};
                for (long c = 0; c < wide_values; c += LANES)
                    EACH_PART both[p] += ((const numbers *)(grads + r * FAR + c))[p] * ((const numbers *)(row + c))[p];
                inner[r] = summed(both);
                sums[r] = job->sums + 2 * ((of->batch * job->heads + head) * job->positions + at);
            }
            long start = most(0, first + of->low) / PANEL * PANEL, stop = least(of->keys, first + count + of->high);
            for (; start < stop; start += KEYS) {
                long last = least(stop, start + KEYS), lowest = last, highest = start;
                for (long i = 0; i < count; i += BUNDLE) {
                    long rows = least(BUNDLE, count - i), from, to;
                    panels_of(of, first + i, rows, start, last, &from, &to);
                    float *some = weights + i * ACROSS, *slope = slopes + i * ACROSS;
                    if (from == to) continue;
                    lowest = least(lowest, from), highest = most(highest, to);
                    scores(rows, queries + i * FAR, key_panels, 0, from, to, start, job->width, some);
                    scores(rows, grads + i * FAR, value_panels, 0, from, to, start, job->values, slope);
                    for (long r = 0; r < rows; r++) {
                        float *weight = some + r * ACROSS, *bent = slope + r * ACROSS;
                        long near, far;
                        seen(of, first + i + r, start, last, &near, &far);
                        float top = sums[i + r][0], share = sums[i + r][1];
                        if (near < far) sum_of_exponentials(weight + near - start, far - near, top, weight + near - start);
                        for (long j = from; j < to; j++) {
                            int there = j >= near && j < far;
                            weight[j - start] = there ? weight[j - start] * share : 0.0f;
                            bent[j - start] = there ? weight[j - start] * (bent[j - start] - inner[i + r]) : 0.0f;
                        }
                    }
                    add_values(rows, slope, keys, 0, from, least(to, last), start, wide_keys, to_queries + i * FAR);
                }
                for (long j = lowest; j < highest; j += TOGETHER) { /* over the bundles of queries that see one of these keys */
                    long from = most(0, j - of->high - first) / BUNDLE * BUNDLE;
                    long to = least(count, j + TOGETHER - 1 - of->low + 1 - first);
                    to = least(count, (to + BUNDLE - 1) / BUNDLE * BUNDLE);
                    if (from >= to) continue;
                    product(TOGETHER, weights + from * ACROSS + j - start, 1, ACROSS, to - from, grads + from * FAR, FAR,
                            wide_values, to_values + j * wide_values, wide_values, 1);
                    product(TOGETHER, slopes + from * ACROSS + j - start, 1, ACROSS, to - from, queries + from * FAR, FAR,
                            wide_keys, to_keys + j * wide_keys, wide_keys, 1);
                }
            }
            for (long r = 0; r < count; r++)
                write_row(job, (char *)place(job, &job->to_q, of->batch, head, of->query + first + r), job->width, job->scale,
                          to_queries + r * FAR);
        }
    for (long j = 0; j < of->keys; j++) {
        write_row(job, (char *)place(job, &job->to_k, of->batch, kv_head, of->key + j), job->width, 1.0f, to_keys + j * wide_keys);
        write_row(job, (char *)place(job, &job->to_v, of->batch, kv_head, of->key + j), job->values, 1.0f,
                  to_values + j * wide_values);
    }
}

/* A thread's work: it takes items until none is left, since sequences differ in length. */
static void some_items(const void *given, long from, long to)
{
    (void)from, (void)to;
    const struct job *job = given;
    long kv_heads = job->heads / job->group, each = kv_heads * job->parts, longest = 0;
    for (long s = 0; s < job->sequences; s++) longest = most(longest, sequence_of(job, s).keys);
    long size = job->backward ? space_backward(job, longest) : space_forward(job, longest);
    float *space = aligned_alloc(64, (size * sizeof *space + 63) / 64 * 64);
    for (long item; space && (item = __atomic_fetch_add(job->next, 1, __ATOMIC_RELAXED)) < job->sequences * each;) {
        struct sequence of = sequence_of(job, item / each);
        if (job->backward)
            backward_one(job, &of, item % each, space);
        else
            forward_one(job, &of, item % each / job->parts, item % job->parts, space);
    }
    free(space);
}

static void clear(const struct job *job, const struct tensor *x, long heads, long width, const long *gaps, long count)
{
    for (long g = 0; g < count; g++)
        for (long head = 0; head < heads; head++)
            for (long r = 0; r < gaps[3 * g + 2]; r++)
                memset((char *)place(job, x, gaps[3 * g], head, gaps[3 * g + 1] + r), 0, width * (job->half ? 2 : 4));
}

/* All items, on threads where there is enough to do; 0 where there was no memory for one. */
static int run(const struct job *job)
{
    long products = 0;
    for (long s = 0; s < job->sequences; s++) {
        struct sequence of = sequence_of(job, s);
        products += of.queries * of.keys * (job->width + job->values) * job->heads;
    }
    in_parallel(some_items, job, 1 << 20, products > 131072);
    return *job->next >= job->sequences * (job->heads / job->group) * job->parts;
}

/* The tensor of this number; behind 13 sizes come the four steps of each. */
static struct tensor tensor_of(void *data, const long *sizes, int number)
{
    const long *steps = sizes + 13 + 4 * number;
    return (struct tensor){data, steps[0], steps[1], steps[2]};
}

static struct job job_of(void *q, void *k, void *v, void *out, float *sums, const long *sizes, const long *facts,
                         float scale, long *next)
{
    struct job job = {0};
    job.q = tensor_of(q, sizes, 0), job.k = tensor_of(k, sizes, 1), job.v = tensor_of(v, sizes, 2);
    job.out = tensor_of(out, sizes, 3);
    job.sums = sums, job.facts = facts, job.scale = scale, job.next = next;
    job.heads = sizes[0], job.group = sizes[1], job.width = sizes[2], job.values = sizes[3], job.positions = sizes[4];
    job.sequences = sizes[5], job.low = sizes[6], job.high = sizes[7], job.parts = sizes[8], job.half = (int)sizes[9];
    job.uniform[0] = sizes[4], job.uniform[1] = sizes[12];
    return job;
}

/* The outputs of all queries and, where there is place for it, what their gradients take of the scores, [batch, heads,
   positions, 2]. `sizes`: heads of the queries, how many share one of the keys, features of keys and of values, queries of a
   row, sequences, low and high, parts, whether the numbers are bfloat16, gaps of queries and of keys, keys of a row. Then the
   steps of q, k, v and out by batch, head, position and feature. Without `facts` every row of the batch is a sequence. A gap is
   a row of the batch, a first position and how many: there are no queries in it, and its outputs are zeros. */
int NAMED(varlen_forward)(void *q, void *k, void *v, void *out, float *sums, const long *sizes, const long *facts,
                         const long *gaps, float scale)
{
    long next = 0;
    struct job job = job_of(q, k, v, out, sums, sizes, facts, scale, &next);
    clear(&job, &job.out, job.heads, job.values, gaps, sizes[10]);
    return run(&job);
}

/* The gradients of q, k and v, of outputs and of what was kept of the scores; the same sizes, with the gaps of the queries and
   then those of the keys. The steps are those of q, k, v, out, its gradient, and the gradients of q, k and v. */
int NAMED(varlen_backward)(void *q, void *k, void *v, void *out, void *grad, void *to_q, void *to_k, void *to_v, float *sums,
                            const long *sizes, const long *facts, const long *gaps, float scale)
{
    long next = 0;
    struct job job = job_of(q, k, v, out, sums, sizes, facts, scale, &next);
    job.grad = tensor_of(grad, sizes, 4), job.to_q = tensor_of(to_q, sizes, 5);
    job.to_k = tensor_of(to_k, sizes, 6), job.to_v = tensor_of(to_v, sizes, 7);
    job.backward = job.parts = 1;
    clear(&job, &job.to_q, job.heads, job.width, gaps, sizes[10]);
    clear(&job, &job.to_k, job.heads / job.group, job.width, gaps + 3 * sizes[10], sizes[11]);
    clear(&job, &job.to_v, job.heads / job.group, job.values, gaps + 3 * sizes[10], sizes[11]);
    return run(&job);
}

#endif
