/* What a step of decoding does with its logits on the CPU, in two passes over them. Compiled on demand; see compiling.py. */

#include <float.h>
#include <math.h>

enum { BLOCK = 64, MOST = 32 };
#define NONE (-FLT_MAX) /* below every logit but −inf, which compilers of fast mathematics need not know */

/* Put x at its place among the largest so far, behind its equals. */
static inline void insert(float x, long place, int count, float *largest, long *places)
{
    int at = count - 1;
    for (; at && x > largest[at - 1]; at--) largest[at] = largest[at - 1], places[at] = places[at - 1];
    largest[at] = x, places[at] = place;
}

/* The `count` largest logits of each row from word `first` on, as log-probabilities among all words, and which words
   they are; of equals, those that come first. Places for which nothing above −inf is left stay as they were. A row in
   which a number is no number, or the largest is infinite, gets NaN. */
void leading(const float *logits, long rows, long row_step, long words, long first, int count, float *found,
             long *places)
{
#pragma omp parallel for if (rows * words > 32768)
    for (long r = 0; r < rows; r++) {
        const float *logit = logits + r * row_step;
        float tops[(words + BLOCK - 1) / BLOCK], highest = NONE, total = 0.0f, largest[MOST];
        long word[MOST];
        for (long i = 0; i < words; i++) highest = logit[i] > highest ? logit[i] : highest;
        for (long i = 0; i < words; i++) total += expf(logit[i] - highest);
        /* A word outside of the `count` blocks with the largest tops has as many before it. */
        for (int c = 0; c < count; c++) largest[c] = NONE;
        for (long b = 0; b * BLOCK < words; b++) {
            long end = (b + 1) * BLOCK < words ? (b + 1) * BLOCK : words;
            float top = NONE;
            for (long i = b * BLOCK; i < end; i++) {
                float some = i < first ? NONE : logit[i];
                top = some > top ? some : top;
            }
            tops[b] = top;
            if (top > largest[count - 1]) insert(top, b, count, largest, word);
        }
        float enough = largest[count - 1];
        for (int c = 0; c < count; c++) largest[c] = NONE;
        for (long b = 0; b * BLOCK < words; b++) {
            if (tops[b] < enough) continue;
            long end = (b + 1) * BLOCK < words ? (b + 1) * BLOCK : words;
            for (long i = b * BLOCK < first ? first : b * BLOCK; i < end; i++)
                if (logit[i] > largest[count - 1]) insert(logit[i], i, count, largest, word);
        }
        float sum = logf(total);
        for (int c = 0; c < count && largest[c] > NONE; c++) {
            found[r * count + c] = (largest[c] - highest) - sum;
            places[r * count + c] = word[c];
        }
    }
}
