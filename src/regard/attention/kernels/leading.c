/* The likeliest words among the logits of a decoding step, in two passes over them. */

#include <math.h>

#include "lanes.h"

enum { BLOCK = 64, MOST = 32 };
#define NONE (-FLT_MAX) /* below every logit but −inf */

struct job {
    const float *logits;
    long row_step, words, first;
    int count;
    float *found;
    long *places;
};

/* Put x at its place among the largest so far, behind its equals. */
static inline void insert(float x, long place, int count, float *largest, long *places)
{
    int at = count - 1;
    for (; at && x > largest[at - 1]; at--) largest[at] = largest[at - 1], places[at] = places[at - 1];
    largest[at] = x, places[at] = place;
}

static void some_rows(const void *given, long from, long to)
{
    struct job job = *(const struct job *)given;
    long words = job.words, first = job.first, word[MOST];
    int count = job.count;
    for (long r = from; r < to; r++) {
        const float *logit = job.logits + r * job.row_step;
        float tops[(words + BLOCK - 1) / BLOCK], largest[MOST], highest = largest_of(logit, first, NONE);
        /* A word outside of the `count` blocks with the largest tops has as many before it. */
        for (int c = 0; c < count; c++) largest[c] = NONE;
        for (long b = 0; b * BLOCK < words; b++) {
            long start = b * BLOCK < first ? first : b * BLOCK, end = (b + 1) * BLOCK < words ? (b + 1) * BLOCK : words;
            tops[b] = largest_of(logit + start, end - start, NONE);
            highest = tops[b] > highest ? tops[b] : highest;
            if (tops[b] > largest[count - 1]) insert(tops[b], b, count, largest, word);
        }
        float enough = largest[count - 1];
        for (int c = 0; c < count; c++) largest[c] = NONE;
        for (long b = 0; b * BLOCK < words; b++) {
            if (tops[b] < enough) continue;
            long end = (b + 1) * BLOCK < words ? (b + 1) * BLOCK : words;
            for (long i = b * BLOCK < first ? first : b * BLOCK; i < end; i++)
                if (logit[i] > largest[count - 1]) insert(logit[i], i, count, largest, word);
        }
        float sum = logf(sum_of_exponentials(logit, words, highest, 0));
        for (int c = 0; c < count && largest[c] > NONE; c++) {
            job.found[r * count + c] = (largest[c] - highest) - sum;
            job.places[r * count + c] = word[c];
        }
    }
}

/* The `count` largest logits of each row from word `first` on, as log-probabilities among all words, and which words
   they are; of equals, those that come first. Places for which nothing above −inf is left stay as they were. A row that
   contains NaN, or whose largest logit is infinite, gets NaN. */
void NAMED(leading)(const float *logits, long rows, long row_step, long words, long first, int count, float *found,
                    long *places)
{
    struct job job = {logits, row_step, words, first, count, found, places};
    in_parallel(some_rows, &job, rows, rows * words > 32768);
}
