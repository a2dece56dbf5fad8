/* The tree over replicas against its definition. */
#include "support/test.h"

#include "numeric/tree.h"

enum { MOST = 33 };

/* The largest power of two below n, from the definition. */
static int64_t power_below(int64_t n)
{
    int64_t power = 1;
    for (int64_t p = 1; p < n; p *= 2) power = p;
    return power;
}

/* Whether [a, b), [b, c) are children of a node of the tree over [lo, hi). */
static bool naive_siblings(int64_t lo, int64_t hi, int64_t a, int64_t b, int64_t c)
{
    if (hi - lo < 2) return false;
    const int64_t middle = lo + power_below(hi - lo);
    if (a == lo && b == middle && c == hi) return true;
    return naive_siblings(lo, middle, a, b, c) || naive_siblings(middle, hi, a, b, c);
}

static void splits(void **state)
{
    (void)state;
    for (int64_t lo = 0; lo < 70; lo++) {
        for (int64_t n = 2; n < 200; n++) {
            assert_int_equal(lki_tree_split(lo, lo + n), lo + power_below(n));
        }
    }
    assert_int_equal(lki_tree_split(0, 6), 4);
    assert_int_equal(lki_tree_split(5, INT64_C(5) + (INT64_C(1) << 60)), 5 + (INT64_C(1) << 59));
}

static void siblings(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= MOST; leaves++) {
        for (int64_t a = -1; a <= leaves + 1; a++) {
            for (int64_t b = a - 1; b <= leaves + 1; b++) {
                for (int64_t c = b - 1; c <= leaves + 1; c++) {
                    assert_int_equal(lki_tree_siblings(leaves, a, b, c),
                                     naive_siblings(0, leaves, a, b, c));
                }
            }
        }
    }
}

/* The maximal nodes inside [first, last), counted from the definition. */
static int naive_maximal(int64_t lo, int64_t hi, int64_t first, int64_t last)
{
    if (last <= lo || hi <= first) return 0;
    if (first <= lo && hi <= last) return 1;
    const int64_t middle = lo + power_below(hi - lo);
    return naive_maximal(lo, middle, first, last) + naive_maximal(middle, hi, first, last);
}

/* One by one they fill the range, each in its tree, and there are as few as can be. */
static void maximal_nodes(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= MOST; leaves++) {
        for (int64_t first = 0; first < leaves; first++) {
            for (int64_t last = first + 1; last <= leaves; last++) {
                int nodes = 0;
                for (int64_t at = first; at < last; nodes++) {
                    const lki_tree_node node = lki_tree_maximal(leaves, at, last);
                    assert_int_equal(node.lo, at);
                    assert_in_range(node.hi, at + 1, last);
                    assert_int_equal(naive_maximal(0, leaves, node.lo, node.hi), 1);
                    at = node.hi;
                }
                assert_int_equal(nodes, naive_maximal(0, leaves, first, last));
            }
        }
    }
}

/* While leaf k is added, the worker holds the maximal nodes of [first, k) and the leaf. */
static void slots(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= MOST; leaves++) {
        int log2 = 0;
        while ((INT64_C(1) << log2) < leaves) log2++;
        for (int64_t first = 0; first <= leaves; first++) {
            int most = 0;
            assert_int_equal(lki_tree_slots(leaves, first, first), 0);
            for (int64_t last = first + 1; last <= leaves; last++) {
                const int held = naive_maximal(0, leaves, first, last - 1) + 1;
                if (held > most) most = held;
                assert_int_equal(lki_tree_slots(leaves, first, last), most);
                assert_true(most <= 2 * log2 + 1);
            }
        }
    }
}

/* Behind leaf k the worker holds the maximal nodes of [first, k + 1), and nothing beside them before. */
static void slots_joined(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= MOST; leaves++) {
        for (int64_t first = 0; first <= leaves; first++) {
            int most = 0;
            assert_int_equal(lki_tree_slots_joined(leaves, first, first), 0);
            for (int64_t last = first + 1; last <= leaves; last++) {
                const int held = naive_maximal(0, leaves, first, last);
                if (held > most) most = held;
                assert_int_equal(lki_tree_slots_joined(leaves, first, last), most);
                assert_in_range(lki_tree_slots(leaves, first, last), most, most + 1);
            }
        }
    }
    assert_int_equal(lki_tree_slots_joined(8, 0, 4), 2);
    assert_int_equal(lki_tree_slots_joined(8, 0, 8), 3);
}

static void shares(void **state)
{
    (void)state;
    for (int64_t parts = 1; parts <= 9; parts++) {
        for (int64_t n = 0; n <= 40; n++) {
            assert_int_equal(lki_share(0, parts, n), 0);
            assert_int_equal(lki_share(parts, parts, n), n);
            for (int64_t part = 0; part < parts; part++) {
                const int64_t size = lki_share(part + 1, parts, n) - lki_share(part, parts, n);
                assert_true(size == n / parts || size == (n + parts - 1) / parts);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits), cmocka_unit_test(siblings),     cmocka_unit_test(maximal_nodes),
        cmocka_unit_test(slots),  cmocka_unit_test(slots_joined), cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
