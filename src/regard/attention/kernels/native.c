/* What answering on the CPU does between its products, each in one pass. Compiled on demand; see compiling.py.

   Floating-point operations are not contracted and rows are independent of one another, so a row comes out the same,
   to the bit, however many there are; quantise and finish give the bits of the torch operations they stand for. */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* q = trunc(x · 127 / max |x| + 128.5) for each row, and max |x|; `turn` is 128 for signed bytes, else 0. With
   `rectify` of max(x, 0) instead of x. */
void quantise(const float *x, long rows, long width, float tiny, int turn, int rectify, uint8_t *bytes, float *largest)
{
#pragma omp parallel for if (rows * width > 32768)
    for (long r = 0; r < rows; r++) {
        const float *from = x + r * width;
        uint8_t *to = bytes + r * width;
        /* As whole numbers the bits of sizes have the order of the sizes, with NaN above all. */
        const int32_t *bits = (const int32_t *)from;
        int32_t top = 0, infinite = 0x7f800000, below = rectify ? -1 : 0;
        for (long i = 0; i < width; i++) {
            int32_t size = bits[i] & 0x7fffffff;
            size = (bits[i] < 0) & (size <= infinite) & below ? 0 : size;
            top = size > top ? size : top;
        }
        float most;
        memcpy(&most, &top, sizeof most);
        most = most < tiny ? tiny : most;
        float factor = 127.0f / most;
        for (long i = 0; i < width; i++) {
            float turned = (rectify && from[i] < 0 ? 0.0f : from[i]) * factor;
            to[i] = (uint8_t)((int)(turned + 128.5f) ^ turn);
        }
        largest[r] = most;
    }
}

/* y · largest + bias in place, where a bias is. */
void finish(float *y, long rows, long width, const float *largest, const float *bias)
{
#pragma omp parallel for if (rows * width > 32768)
    for (long r = 0; r < rows; r++) {
        float *row = y + r * width, most = largest[r];
        for (long i = 0; i < width; i++) {
            float scaled = row[i] * most;
            row[i] = bias ? scaled + bias[i] : scaled;
        }
    }
}

/* The same of sums that are whole numbers, with a scale for each output. */
void finish_whole(const int32_t *sums, float *y, long width, const float *scale, const float *most, const float *bias)
{
    float largest = *most;
    for (long i = 0; i < width; i++) {
        float scaled = ((float)sums[i] * scale[i]) * largest;
        y[i] = bias ? scaled + bias[i] : scaled;
    }
}

static float summed(float *lanes)
{
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lanes[j] += lanes[j + half];
    return lanes[0];
}

/* weight · (s − mean) / √(variance + ε) + bias of s = x + added, for each row. */
void added_norm(const float *x, const float *added, long rows, long width, const float *weight, const float *bias,
                float epsilon, float *y)
{
#pragma omp parallel for if (rows * width > 32768)
    for (long r = 0; r < rows; r++) {
        const float *a = x + r * width, *b = added + r * width;
        float *to = y + r * width, sums[16] = {0}, squares[16] = {0};
        long whole = width & ~15L;
        for (long i = 0; i < whole; i += 16)
            for (int j = 0; j < 16; j++) sums[j] += to[i + j] = a[i + j] + b[i + j];
        for (long i = whole; i < width; i++) sums[i - whole] += to[i] = a[i] + b[i];
        float mean = summed(sums) / width;
        for (long i = 0; i < whole; i += 16)
            for (int j = 0; j < 16; j++) squares[j] += (to[i + j] - mean) * (to[i + j] - mean);
        for (long i = whole; i < width; i++) squares[i - whole] += (to[i] - mean) * (to[i] - mean);
        float factor = 1.0f / sqrtf(summed(squares) / width + epsilon);
        for (long i = 0; i < width; i++) to[i] = (to[i] - mean) * factor * weight[i] + bias[i];
    }
}
