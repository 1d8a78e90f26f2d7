/* The layer norm of a sum, in one pass over memory. A row's result does not depend on the other rows, to the bit. */

#include <math.h>

#include "lanes.h"

struct job {
    const float *x, *added, *weight, *bias;
    long width;
    float epsilon, *y;
};

static void some_rows(const void *given, long from, long to)
{
    struct job job = *(const struct job *)given;
    long width = job.width, whole = width & ~(LANES - 1L);
    for (long r = from; r < to; r++) {
        const float *a = job.x + r * width, *b = job.added + r * width;
        float *y = job.y + r * width;
        numbers sums[PARTS] = {0}, squares[PARTS] = {0};
        float rest[LANES] = {0};
        for (long i = 0; i < whole; i += LANES)
            EACH_PART sums[p] += ((numbers *)(y + i))[p] = ((const numbers *)(a + i))[p] + ((const numbers *)(b + i))[p];
        for (long i = whole; i < width; i++) rest[i - whole] = y[i] = a[i] + b[i];
        EACH_PART sums[p] += ((const numbers *)rest)[p];
        float mean = summed(sums) / width;
        for (long i = 0; i < whole; i += LANES)
            EACH_PART {
                numbers apart = ((const numbers *)(y + i))[p] - mean;
                squares[p] += apart * apart;
            }
        for (long i = whole; i < width; i++) rest[i - whole] = (y[i] - mean) * (y[i] - mean);
        EACH_PART squares[p] += ((const numbers *)rest)[p];
        float factor = 1.0f / sqrtf(summed(squares) / width + job.epsilon);
        for (long i = 0; i < width; i++) y[i] = (y[i] - mean) * factor * job.weight[i] + job.bias[i];
    }
}

/* weight · (s − mean) / √(variance + ε) + bias of s = x + added, for each row. */
void NAMED(added_norm)(const float *x, const float *added, long rows, long width, const float *weight, const float *bias,
                       float epsilon, float *y)
{
    struct job job = {x, added, weight, bias, width, epsilon, y};
    in_parallel(some_rows, &job, rows, rows * width > 32768);
}
