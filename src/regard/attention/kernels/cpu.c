/* What the kernels need of the machine, compiled once: its instruction set, and the threads of torch. */

#include "lanes.h"

/* The best of the instruction sets the kernels are compiled for: baseline, avx2, avx512, avx512vnni. */
int instruction_set(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512vl")))
        return 1;
    return __builtin_cpu_supports("avx512vnni") ? 3 : 2;
#else
    return 0;
#endif
}

/* The OpenMP runtime that torch has loaded, through three of its functions: linking with one could load a second. */
static void (*parallel_region)(void (*)(void *), void *, unsigned, unsigned);
static int (*thread_count)(void), (*thread_number)(void);

void use_threads(void *region, void *count, void *number)
{
    parallel_region = (void (*)(void (*)(void *), void *, unsigned, unsigned))region;
    thread_count = (int (*)(void))count;
    thread_number = (int (*)(void))number;
}

struct divided {
    part *work;
    const void *job;
    long count;
};

static void own_share(void *given)
{
    const struct divided *all = given;
    long threads = thread_count(), own = thread_number();
    long from = all->count * own / threads, to = all->count * (own + 1) / threads;
    if (from < to) all->work(all->job, from, to);
}

void in_parallel(part *work, const void *job, long count, int worth_threads)
{
    struct divided all = {work, job, count};
    if (parallel_region && worth_threads && count > 1)
        parallel_region(own_share, &all, 0, 0);
    else
        work(job, 0, count);
}
