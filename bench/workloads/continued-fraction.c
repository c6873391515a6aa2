/* Arithmetic on numbers that live for one operation, in the manner of cfrac.
 *
 * It expands the square root of a large number N into its continued fraction, <terms> terms of it,
 * with the numerators of the convergents modulo N, as the factoring method does that gave cfrac its
 * name. Numbers are immutable and counted: each operation allocates its result, of 16 to a few
 * dozen bytes, and drops its operands as soon as nobody holds them. The identity that links the
 * terms with the convergents is checked as it goes, so a damaged number is found.
 */
#include "workload.h"

#define DIGIT_BITS 32
#define DIGITS_MOST 64

static struct argument arguments[] = {
    {"terms", "terms of the continued fraction", 20000, 1, UINT32_MAX, NULL},
    {"digits", "digits of N, of 32 bits each", 4, 1, 16, NULL},
};

/* digits[0] is the least; no leading zeros; zero has no digits. */
struct number {
    uint32_t holders;
    uint32_t count;
    uint32_t digits[];
};

static uint64_t numbers_made;

static struct number *number_new(const uint32_t *digits, uint32_t count) {
    while (count && digits[count - 1] == 0) count--;
    size_t bytes = sizeof(struct number) + count * sizeof *digits;
    struct number *n = (struct number *)block_found(malloc(bytes), bytes);
    n->holders = 1;
    n->count = count;
    memcpy(n->digits, digits, count * sizeof *digits);
    numbers_made++;
    return n;
}

static struct number *number_of(uint32_t value) {
    return number_new(&value, 1);
}

static struct number *hold(struct number *n) {
    n->holders++;
    return n;
}

static void drop(struct number *n) {
    if (--n->holders == 0) free(n);
}

static int number_compare(const struct number *a, const struct number *b) {
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    for (uint32_t i = a->count; i-- > 0;) {
        if (a->digits[i] != b->digits[i]) return a->digits[i] < b->digits[i] ? -1 : 1;
    }
    return 0;
}

/* The operations drop their operands: whoever still needs one passes hold(n). */
static struct number *number_add(struct number *a, struct number *b) {
    uint32_t digits[DIGITS_MOST];
    uint32_t count = a->count > b->count ? a->count : b->count;
    uint64_t carry = 0;
    for (uint32_t i = 0; i < count; i++) {
        carry += (uint64_t)(i < a->count ? a->digits[i] : 0) + (i < b->count ? b->digits[i] : 0);
        digits[i] = (uint32_t)carry;
        carry >>= DIGIT_BITS;
    }
    digits[count] = (uint32_t)carry;
    drop(a);
    drop(b);
    return number_new(digits, count + 1);
}

/* a - b, where a >= b. */
static struct number *number_subtract(struct number *a, struct number *b) {
    if (number_compare(a, b) < 0)
        workload_fail("a difference became negative: a number is damaged");
    uint32_t digits[DIGITS_MOST];
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        borrow += (int64_t)a->digits[i] - (i < b->count ? b->digits[i] : 0);
        digits[i] = (uint32_t)borrow;
        borrow >>= DIGIT_BITS;
    }
    uint32_t count = a->count;
    drop(a);
    drop(b);
    return number_new(digits, count);
}

static struct number *number_multiply(struct number *a, struct number *b) {
    uint32_t digits[DIGITS_MOST] = {0};
    for (uint32_t i = 0; i < a->count; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->count; j++) {
            carry += (uint64_t)a->digits[i] * b->digits[j] + digits[i + j];
            digits[i + j] = (uint32_t)carry;
            carry >>= DIGIT_BITS;
        }
        digits[i + b->count] = (uint32_t)carry;
    }
    uint32_t count = a->count + b->count;
    drop(a);
    drop(b);
    return number_new(digits, count);
}

static struct number *number_halve(struct number *a) {
    uint32_t digits[DIGITS_MOST];
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t above = i + 1 < a->count ? a->digits[i + 1] : 0;
        digits[i] = a->digits[i] >> 1 | above << (DIGIT_BITS - 1);
    }
    uint32_t count = a->count;
    drop(a);
    return number_new(digits, count);
}

/* Quotient and remainder by doubling the divisor and going down again: each step is a number. */
static struct number *number_divide(struct number *a, struct number *b, struct number **rest) {
    struct number *part = hold(b);
    struct number *power = number_of(1);
    while (number_compare(part, a) <= 0) {
        part = number_add(hold(part), part);
        power = number_add(hold(power), power);
    }
    struct number *quotient = number_of(0);
    while (number_compare(part, b) > 0) {
        part = number_halve(part);
        power = number_halve(power);
        if (number_compare(part, a) > 0) continue;
        a = number_subtract(a, hold(part));
        quotient = number_add(quotient, hold(power));
    }
    drop(part);
    drop(power);
    drop(b);
    *rest = a;
    return quotient;
}

static struct number *number_remainder(struct number *a, struct number *b) {
    struct number *rest;
    drop(number_divide(a, b, &rest));
    return rest;
}

/* Newton's iteration from above. */
static struct number *number_root(struct number *n) {
    struct number *root = hold(n);
    for (;;) {
        struct number *rest;
        struct number *quotient = number_divide(hold(n), hold(root), &rest);
        drop(rest);
        struct number *next = number_halve(number_add(hold(root), quotient));
        if (number_compare(next, root) >= 0) {
            drop(next);
            drop(n);
            return root;
        }
        drop(root);
        root = next;
    }
}

struct expansion {
    struct number *n;
    struct number *root;
    struct number *p; /* P and Q of the term: (root(n) + P) / Q */
    struct number *q;
    struct number *a_before; /* numerators of the last two convergents modulo n */
    struct number *a;
    int sign; /* of the next Q in A^2 = +-Q modulo n */
};

static void expansion_step(struct expansion *e) {
    struct number *rest;
    struct number *sum = number_add(hold(e->root), hold(e->p));
    struct number *term = number_divide(sum, hold(e->q), &rest);
    drop(rest);
    struct number *p = number_subtract(number_multiply(hold(term), hold(e->q)), e->p);
    struct number *square = number_multiply(hold(p), hold(p));
    struct number *q = number_divide(number_subtract(hold(e->n), square), e->q, &rest);
    if (rest->count) workload_fail("a division has a remainder: a number is damaged");
    drop(rest);
    struct number *a = number_add(number_multiply(term, hold(e->a)), e->a_before);
    e->a_before = e->a;
    e->a = number_remainder(a, hold(e->n));
    e->p = p;
    e->q = q;
    e->sign = -e->sign;
}

/* A^2 = sign * Q modulo n holds for every convergent. */
static void expansion_verify(const struct expansion *e) {
    struct number *square = number_multiply(hold(e->a), hold(e->a));
    if (e->sign < 0) square = number_add(square, hold(e->q));
    struct number *rest = number_remainder(square, hold(e->n));
    int holds = e->sign < 0 ? rest->count == 0 : number_compare(rest, e->q) == 0;
    drop(rest);
    if (!holds) workload_fail("a convergent is wrong: a number is damaged");
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Arithmetic on numbers that live for one operation.", arguments,
                    sizeof arguments / sizeof *arguments);
    struct random_stream random = random_seeded(1);
    uint32_t digits[DIGITS_MOST];
    uint32_t count = (uint32_t)arguments[1].value;
    for (uint32_t i = 0; i < count; i++) digits[i] = (uint32_t)random_next(&random) | 3;

    double started_s = time_now_s();
    struct number *n = number_new(digits, count);
    struct number *root = number_root(hold(n));
    struct expansion e = {n, root, number_of(0), number_of(1), number_of(0), number_of(1), 1};
    for (uint64_t t = 0; t < arguments[0].value; t++) {
        expansion_step(&e);
        if (t % 64 == 0) expansion_verify(&e);
        if (e.q->count == 1 && e.q->digits[0] == 1) break; /* the period has ended */
    }
    drop(e.n);
    drop(e.root);
    drop(e.p);
    drop(e.q);
    drop(e.a_before);
    drop(e.a);
    report_print(numbers_made, started_s);
    return 0;
}
