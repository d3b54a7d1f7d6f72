/* Sustained memory bandwidth of four simple loops over three arrays. README.md beside this file states the methodology.
 *
 * Parameters come from the environment, the result goes to stdout as one JSON document, everything else to stderr.
 * Exit code: 0 measured and verified, 1 wrong result or no memory, 2 bad parameter or arrays that the cache could hold.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Limits: 1 TiB an array, a thousand repetitions and threads are beyond any sensible trial. */
enum { MAX_SIZE_MIB = 1 << 20, MAX_REPS = 1000, MAX_THREADS = 1024, KERNELS = 4, ALIGNMENT = 4096 };

/* The arrays together are at least this many times as large as the cache: what a repetition left in it is at most a quarter of them. */
enum { LEAST_CACHES = 4 };

/* The size of an array where none is given: twice the cache, so six times in all, within what a quickstart can take in time and memory. */
enum { AUTO_CACHES = 2, MIN_AUTO_MIB = 64, MAX_AUTO_MIB = 1024 };

static const long MIB = 1024 * 1024;

/* The folder in which Linux describes the caches of the first processor. The tests compile with another one. */
#ifndef CACHE_FOLDER
#define CACHE_FOLDER "/sys/devices/system/cpu/cpu0/cache"
#endif
enum { MAX_CACHES = 16, MAX_CACHE_TEXT = 4096, MAX_CACHE_MIB = 1 << 20 };

/* The factor of scale and triad. Small, so that values neither overflow nor become subnormal over many repetitions. */
static const double FACTOR = 0.25;
static const double START_A = 1.0, START_B = 2.0, START_C = 0.5;

struct kernel {
    const char *name;
    double arrays_moved; /* arrays read or written, as the program sees it */
};

static const struct kernel kernels[KERNELS] = {{"copy", 2}, {"scale", 2}, {"add", 3}, {"triad", 3}};

struct job {
    double *a, *b, *c;
    size_t length; /* elements of each array */
    long reps, threads;
    pthread_barrier_t barrier;
    double *seconds; /* [reps][KERNELS] */
};

struct worker {
    struct job *job;
    long index;
    pthread_t thread;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* restrict lets the compiler vectorise. The loops stay out of line so that a call is a call: stores into memory that verify() reads
 * later cannot be dropped, and two loops cannot be fused into one. */
__attribute__((noinline)) static void copy(double *restrict c, const double *restrict a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i];
}

__attribute__((noinline)) static void scale(double *restrict b, const double *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = FACTOR * c[i];
}

__attribute__((noinline)) static void add(double *restrict c, const double *restrict a, const double *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

__attribute__((noinline)) static void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + FACTOR * c[i];
}

static void run_kernel(int kernel, double *a, double *b, double *c, size_t n)
{
    switch (kernel) {
    case 0: copy(c, a, n); break;
    case 1: scale(b, c, n); break;
    case 2: add(c, a, b, n); break;
    default: triad(a, b, c, n); break;
    }
}

/* Each worker writes its own share first, so that the kernel places the pages on that worker's memory node. */
static void first_touch(double *a, double *b, double *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = START_A;
        b[i] = START_B;
        c[i] = START_C;
    }
}

/* The time of a repetition runs from one barrier to the next: the slowest worker counts. */
static void *work(void *argument)
{
    struct worker *self = argument;
    struct job *job = self->job;
    size_t index = (size_t)self->index, threads = (size_t)job->threads;
    size_t share = job->length / threads, from = share * index;
    size_t n = index + 1 == threads ? job->length - from : share;
    double *a = job->a + from, *b = job->b + from, *c = job->c + from;

    first_touch(a, b, c, n);
    for (long rep = 0; rep < job->reps; rep++) {
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            pthread_barrier_wait(&job->barrier);
            double start = now();
            run_kernel(kernel, a, b, c, n);
            pthread_barrier_wait(&job->barrier);
            if (index == 0)
                job->seconds[rep * KERNELS + kernel] = now() - start;
        }
    }
    return NULL;
}

static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

/* Starts the workers; the calling thread is worker 0. */
static int run_workers(struct job *job)
{
    struct worker *workers = calloc((size_t)job->threads, sizeof *workers);
    if (workers == NULL || pthread_barrier_init(&job->barrier, NULL, (unsigned)job->threads) != 0)
        return fail("no memory for the workers");
    for (long i = 0; i < job->threads; i++) {
        workers[i].job = job;
        workers[i].index = i;
        /* Workers that were started wait at a barrier nobody completes; the process ends with exit code 1. */
        if (i > 0 && pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return fail("cannot start a thread");
    }
    work(&workers[0]);
    for (long i = 1; i < job->threads; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
    return 0;
}

static size_t count_wrong(const double *array, size_t n, double expected)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += !(fabs(array[i] - expected) <= 1e-12 * fabs(expected));
    return wrong;
}

/* Repeats the arithmetic on one element of each array and compares every element with it. */
static int verify(const struct job *job)
{
    double a = START_A, b = START_B, c = START_C;
    for (long rep = 0; rep < job->reps; rep++) {
        c = a;
        b = FACTOR * c;
        c = a + b;
        a = b + FACTOR * c;
    }
    size_t wrong = count_wrong(job->a, job->length, a) + count_wrong(job->b, job->length, b) + count_wrong(job->c, job->length, c);
    if (wrong > 0)
        fprintf(stderr, "wrong result: %zu elements differ from what the loops must leave\n", wrong);
    return wrong > 0;
}

/* A whole number from the environment, or the default where it is unset; anything else ends the program. */
static long parameter(const char *name, long fallback, long max)
{
    const char *text = getenv(name);
    if (text == NULL)
        return fallback;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 1 || value > max) {
        fprintf(stderr, "%s is `%s`, not a whole number from 1 to %ld\n", name, text, max);
        exit(2);
    }
    return value;
}

/* Reads the first line of a file of the cache with this index; an empty text where there is none. */
static void read_cache(int index, const char *name, char text[MAX_CACHE_TEXT])
{
    char path[512];
    snprintf(path, sizeof path, CACHE_FOLDER "/index%d/%s", index, name);
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    if (fgets(text, MAX_CACHE_TEXT, file) == NULL)
        text[0] = '\0';
    fclose(file);
}

/* A size such as `32768K`, in bytes; 0 where it is none, or beyond any cache. */
static long parse_size(const char *text)
{
    char *end;
    long size = strtol(text, &end, 10), unit = *end == 'K' ? 1024 : *end == 'M' ? MIB : 1;
    return end != text && size > 0 && size <= MAX_CACHE_MIB * MIB / unit ? size * unit : 0;
}

/* The processors in a mask of hexadecimal digits. */
static long count_processors(const char *mask)
{
    long count = 0;
    for (; *mask != '\0'; mask++) {
        const char *digits = "0123456789abcdef", *found = strchr(digits, *mask);
        for (long bits = found == NULL ? 0 : found - digits; bits > 0; bits >>= 1)
            count += bits & 1;
    }
    return count;
}

/* The bytes of last-level cache that the threads can have, 0 where the system does not say. A machine has several such caches if each
 * serves a part of its processors, and every thread may run beside another one. The C library's figure comes second: on a virtual
 * machine it can be the sum over a host of which this machine has a part. */
static long cache_bytes(long threads)
{
    char text[MAX_CACHE_TEXT];
    for (int index = MAX_CACHES - 1; index >= 0; index--) {
        read_cache(index, "size", text);
        long bytes = parse_size(text);
        if (bytes == 0)
            continue;
        read_cache(index, "shared_cpu_map", text);
        long shared = count_processors(text), processors = sysconf(_SC_NPROCESSORS_ONLN);
        long caches = shared > 0 && processors > shared ? (processors + shared - 1) / shared : 1;
        return bytes * (threads < caches ? threads : caches);
    }
    long stated = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    stated = l3 > l2 ? l3 : l2;
#endif
    return stated > 0 ? stated : 0;
}

/* The size of an array in MiB, as SIZE_MIB gives it, or by the cache if it is `auto` or unset. */
static long array_mib(long cache)
{
    const char *text = getenv("SIZE_MIB");
    if (text != NULL && strcmp(text, "auto") != 0)
        return parameter("SIZE_MIB", MIN_AUTO_MIB, MAX_SIZE_MIB);
    long mib = (AUTO_CACHES * cache + MIB - 1) / MIB;
    return mib < MIN_AUTO_MIB ? MIN_AUTO_MIB : mib > MAX_AUTO_MIB ? MAX_AUTO_MIB : mib;
}

/* Refuses arrays of which the cache could hold a good part: the figures would be those of the cache. */
static int check_size(long size_mib, long cache)
{
    long least = (LEAST_CACHES * cache + 3 * MIB - 1) / (3 * MIB);
    if (size_mib >= least)
        return 0;
    fprintf(stderr,
            "three arrays of %ld MiB are less than %d times the last-level cache of %.1f MiB, so this would be a bandwidth of the cache: "
            "set SIZE_MIB to %ld or more\n",
            size_mib, (int)LEAST_CACHES, (double)cache / (double)MIB, least);
    return 2;
}

static void print_samples(const struct job *job, int kernel, double bytes)
{
    printf("    \"%s_mb_per_s\": [", kernels[kernel].name);
    for (long rep = 1; rep < job->reps; rep++)
        printf("%s%.1f", rep > 1 ? ", " : "", bytes / job->seconds[rep * KERNELS + kernel] / 1e6);
    printf("],\n");
}

static void print_result(const struct job *job, long size_mib, long cache)
{
    double array_bytes = (double)job->length * sizeof(double);
    printf("{\n  \"name\": \"memory-bandwidth\",\n  \"component\": \"assay-indicators\",\n");
    printf("  \"@parameters\": {\"size_mib\": %ld, \"reps\": %ld, \"threads\": %ld},\n", size_mib, job->reps - 1, job->threads);
    printf("  \"@result\": {\n");
    for (int kernel = 0; kernel < KERNELS; kernel++)
        print_samples(job, kernel, kernels[kernel].arrays_moved * array_bytes);
    printf("    \"working_set_bytes\": %.0f,\n", 3 * array_bytes);
    printf("    \"last_level_cache_bytes\": %ld\n  }\n}\n", cache);
}

static double *allocate(size_t length)
{
    void *memory = NULL;
    return posix_memalign(&memory, ALIGNMENT, length * sizeof(double)) == 0 ? memory : NULL;
}

int main(void)
{
    struct job job = {.threads = parameter("THREADS", 1, MAX_THREADS)};
    job.reps = parameter("REPS", 7, MAX_REPS) + 1; /* one more that warms up and is not reported */
    long cache = cache_bytes(job.threads);
    long size_mib = array_mib(cache);
    int refused = check_size(size_mib, cache);
    if (refused != 0)
        return refused;
    job.length = (size_t)size_mib * 1024 * 1024 / sizeof(double);
    job.a = allocate(job.length);
    job.b = allocate(job.length);
    job.c = allocate(job.length);
    job.seconds = calloc((size_t)job.reps * KERNELS, sizeof *job.seconds);
    if (job.a == NULL || job.b == NULL || job.c == NULL || job.seconds == NULL)
        return fail("no memory for the arrays: lower SIZE_MIB");
    if (run_workers(&job) != 0 || verify(&job) != 0)
        return 1;
    for (long i = 0; i < job.reps * KERNELS; i++)
        if (!(job.seconds[i] > 0))
            return fail("a repetition was too short for the clock: raise SIZE_MIB");
    print_result(&job, size_mib, cache);
    free(job.a), free(job.b), free(job.c), free(job.seconds);
    return fflush(stdout) == 0 ? 0 : fail("cannot write the result");
}
