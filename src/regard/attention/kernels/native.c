/* What answering on the CPU does between its products, each in one pass. Compiled on demand; see native.py.

   Floating-point operations are not contracted and rows are independent of one another, so a row comes out the same,
   to the bit, however many there are; quantise and finish give the bits of the torch operations they stand for. */

#include <stdint.h>
#include <string.h>

/* q = trunc(x · 127 / max |x| + 128.5) for each row, and max |x|; `turn` is 128 for signed bytes, else 0. */
void quantise(const float *x, long rows, long width, float tiny, int turn, uint8_t *bytes, float *largest)
{
#pragma omp parallel for if (rows * width > 32768)
    for (long r = 0; r < rows; r++) {
        const float *from = x + r * width;
        uint8_t *to = bytes + r * width;
        /* As whole numbers the bits of sizes have the order of the sizes, with NaN above all. */
        const int32_t *bits = (const int32_t *)from;
        int32_t top = 0;
        for (long i = 0; i < width; i++) {
            int32_t size = bits[i] & 0x7fffffff;
            top = size > top ? size : top;
        }
        float most;
        memcpy(&most, &top, sizeof most);
        most = most < tiny ? tiny : most;
        float factor = 127.0f / most;
        for (long i = 0; i < width; i++) {
            float turned = from[i] * factor;
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
