/* Rows of float32 as rows of bytes, and sums of their products as float32 again.

   The results have the bits of the torch operations they replace (layers/quantised_linear.py), and a row's do not depend
   on the other rows. */

#include "lanes.h"

struct rounded {
    const float *x;
    long width;
    float tiny, *largest;
    int turn, rectify;
    uint8_t *bytes;
};

static void rounded_rows(const void *given, long from, long to)
{
    struct rounded job = *(const struct rounded *)given;
    for (long r = from; r < to; r++) {
        const float *x = job.x + r * job.width;
        uint8_t *bytes = job.bytes + r * job.width;
        /* As whole numbers the bits of sizes have the order of the sizes, with NaN above all. */
        const int32_t *bits = (const int32_t *)x;
        int32_t top = 0, infinite = 0x7f800000, below = job.rectify ? -1 : 0;
        for (long i = 0; i < job.width; i++) {
            int32_t size = bits[i] & 0x7fffffff;
            size = (bits[i] < 0) & (size <= infinite) & below ? 0 : size;
            top = size > top ? size : top;
        }
        float most;
        memcpy(&most, &top, sizeof most);
        most = most < job.tiny ? job.tiny : most;
        float factor = 127.0f / most;
        for (long i = 0; i < job.width; i++) {
            float turned = (job.rectify && x[i] < 0 ? 0.0f : x[i]) * factor;
            bytes[i] = (uint8_t)((int)(turned + 128.5f) ^ job.turn);
        }
        job.largest[r] = most;
    }
}

/* q = trunc(x · 127 / max |x| + 128.5) for each row, and max |x|; `turn` is 128 for signed bytes, else 0. With
   `rectify` of max(x, 0) instead of x. */
void NAMED(quantise)(const float *x, long rows, long width, float tiny, int turn, int rectify, uint8_t *bytes,
                     float *largest)
{
    struct rounded job = {x, width, tiny, largest, turn, rectify, bytes};
    in_parallel(rounded_rows, &job, rows, rows * width > 32768);
}

struct scaled {
    float *y;
    long width;
    const float *largest, *bias;
};

static void scaled_rows(const void *given, long from, long to)
{
    struct scaled job = *(const struct scaled *)given;
    for (long r = from; r < to; r++) {
        float *y = job.y + r * job.width, most = job.largest[r];
        for (long i = 0; i < job.width; i++) {
            float scaled = y[i] * most;
            y[i] = job.bias ? scaled + job.bias[i] : scaled;
        }
    }
}

/* y · largest + bias in place, where there is a bias. */
void NAMED(finish)(float *y, long rows, long width, const float *largest, const float *bias)
{
    struct scaled job = {y, width, largest, bias};
    in_parallel(scaled_rows, &job, rows, rows * width > 32768);
}

/* The same for sums of whole numbers, with a scale for each output. */
void NAMED(finish_whole)(const int32_t *sums, float *y, long width, const float *scale, const float *most,
                         const float *bias)
{
    float largest = *most;
    for (long i = 0; i < width; i++) {
        float scaled = ((float)sums[i] * scale[i]) * largest;
        y[i] = bias ? scaled + bias[i] : scaled;
    }
}
