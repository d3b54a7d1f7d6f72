/* Throughput of SHA-256 (FIPS 180-4) in portable C, one thread, message in cache. README.md beside this file states the methodology.
 *
 * Parameters come from the environment, the result goes to stdout as one JSON document, everything else to stderr.
 * Exit code: 0 measured and verified, 1 wrong digest or no memory, 2 bad parameter.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 64, DIGEST = 32, MAX_MESSAGE_KIB = 1 << 20, MAX_PASSES = 1000000, MAX_REPS = 1000 };

/* FIPS 180-4 section 4.2.2: the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* Section 5.3.3: the fractional parts of the square roots of the first 8 primes. */
static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static uint32_t rotr(uint32_t x, int n)
{
    return (x >> n) | (x << (32 - n));
}

static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void store_be(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* Section 6.2.2, with the functions of section 4.1.2 written out. */
static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 16; t++)
        w[t] = load_be(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    for (int t = 0; t < 64; t++) {
        uint32_t choose = (e & f) ^ (~e & g);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + choose + K[t] + w[t];
        uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + majority;
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* The digest of a whole message: full blocks, then the padding of section 5.1.1. */
static void sha256(const uint8_t *message, size_t length, uint8_t digest[DIGEST])
{
    uint32_t state[8];
    uint8_t last[2 * BLOCK] = {0};
    size_t whole = length - length % BLOCK, rest = length - whole;
    size_t padded = rest + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    uint64_t bits = (uint64_t)length * 8;

    memcpy(state, START, sizeof state);
    for (size_t at = 0; at < whole; at += BLOCK)
        compress(state, message + at);
    if (rest > 0)
        memcpy(last, message + whole, rest);
    last[rest] = 0x80;
    store_be(last + padded - 8, (uint32_t)(bits >> 32));
    store_be(last + padded - 4, (uint32_t)bits);
    for (size_t at = 0; at < padded; at += BLOCK)
        compress(state, last + at);
    for (int i = 0; i < 8; i++)
        store_be(digest + 4 * i, state[i]);
}

static void hex(const uint8_t digest[DIGEST], char text[2 * DIGEST + 1])
{
    for (int i = 0; i < DIGEST; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static int digest_is(const char *name, const uint8_t *message, size_t length, const char *expected)
{
    uint8_t digest[DIGEST];
    char text[2 * DIGEST + 1];
    sha256(message, length, digest);
    hex(digest, text);
    if (strcmp(text, expected) == 0)
        return 1;
    fprintf(stderr, "wrong digest of %s: %s instead of %s\n", name, text, expected);
    return 0;
}

/* The examples that NIST publishes for FIPS 180-4, and the empty message: one block, two blocks, many blocks, none. */
static int test_vectors_hold(void)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static uint8_t million[1000000];
    memset(million, 'a', sizeof million);
    return digest_is("the empty message", (const uint8_t *)"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        && digest_is("`abc`", (const uint8_t *)"abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        && digest_is("the two-block message", (const uint8_t *)two_blocks, sizeof two_blocks - 1,
                     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
        && digest_is("a million `a`", million, sizeof million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Hashes the message `passes` times. Each digest becomes the head of the next message: no pass can be skipped or moved. */
static double timed_passes(uint8_t *message, size_t length, long passes)
{
    double start = now();
    for (long pass = 0; pass < passes; pass++) {
        uint8_t digest[DIGEST];
        sha256(message, length, digest);
        memcpy(message, digest, DIGEST);
    }
    return now() - start;
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

static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

int main(void)
{
    long message_kib = parameter("MESSAGE_KIB", 16, MAX_MESSAGE_KIB);
    long passes = parameter("PASSES", 250, MAX_PASSES);
    long reps = parameter("REPS", 15, MAX_REPS);
    size_t length = (size_t)message_kib * 1024;
    double bytes = (double)length * (double)passes;

    if (!test_vectors_hold())
        return 1;
    uint8_t *message = calloc(length, 1);
    double *seconds = calloc((size_t)reps, sizeof *seconds);
    if (message == NULL || seconds == NULL)
        return fail("no memory for the message: lower MESSAGE_KIB");
    timed_passes(message, length, passes); /* warms caches, branch predictors and the clock frequency up; not reported */
    for (long rep = 0; rep < reps; rep++) {
        seconds[rep] = timed_passes(message, length, passes);
        if (!(seconds[rep] > 0))
            return fail("a repetition was too short for the clock: raise PASSES");
    }
    char chained[2 * DIGEST + 1];
    hex(message, chained);
    printf("{\n  \"name\": \"sha256\",\n  \"component\": \"assay-indicators\",\n");
    printf("  \"@parameters\": {\"message_kib\": %ld, \"passes\": %ld, \"reps\": %ld},\n", message_kib, passes, reps);
    printf("  \"@result\": {\n    \"hash_mb_per_s\": [");
    for (long rep = 0; rep < reps; rep++)
        printf("%s%.2f", rep > 0 ? ", " : "", bytes / seconds[rep] / 1e6);
    printf("],\n    \"chained_digest\": \"%s\"\n  }\n}\n", chained);
    free(message), free(seconds);
    return fflush(stdout) == 0 ? 0 : fail("cannot write the result");
}
