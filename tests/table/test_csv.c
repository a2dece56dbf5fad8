/* Tables in CSV files: what people have, what is wrong with it, and the same for any threads and chunks. */
#include "data/folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/table/record.h"
#include "data/table/table.h"

static const char *write_text(const char *text, size_t bytes)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/t.csv", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static lks_status open_text(lki_table *out, const char *text, const lki_csv_opts *opts)
{
    const lki_csv_opts usual = {0};
    return lki_csv_open(out, context, write_text(text, strlen(text)), opts != NULL ? opts : &usual);
}

static double number_at(const lki_table *t, int row, int column)
{
    return t->cell[row * t->columns + column].number;
}

static void assert_text(const lki_table *t, int row, int column, const char *expected)
{
    size_t bytes;
    const char *text = lki_table_text(t, t->cell[row * t->columns + column], &bytes);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(text, expected, bytes);
}

/* Every form of the same table: columns a, "b c", text; rows 1 2.5 x and -3 .5 "y,;z". */
static void forms_that_people_have(void **state)
{
    (void)state;
    static const struct form {
        const char *text;
        bool header;
    } forms[] = {
        {"a,b c,text\n1,2.5,x\n-3,.5,\"y,;z\"\n", true},
        {"a,b c,text\r\n1,2.5,x\r\n-3,.5,\"y,;z\"", true},
        {"\xEF\xBB\xBF"
         "a;b c;text\n1;2.5;x\n-3;.5;\"y,;z\"\n",
         true},
        {"\n\r\na\tb c\ttext\n\n1\t2.5\tx\n\n-3\t.5\ty,;z\n\n", true},
        {"\"a\",\"b c\",\"text\"\n\"1\",\"2.5\",\"x\"\n\"-3\",\".5\",\"y,;z\"\n", true},
        {" a , b c ,  text\n 1 , 2.5 ,x \n-3, .5 , \"y,;z\" \r\n", true},
        {"1,2.5,x\n-3,.5,\"y,;z\"\n", false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        lki_table t;
        LKT_OK(open_text(&t, forms[i].text, NULL));
        assert_int_equal(t.rows, 2);
        assert_int_equal(t.columns, 3);
        assert_int_equal(t.header, forms[i].header);
        assert_string_equal(t.column[1].name, forms[i].header ? "b c" : "1");
        assert_int_equal(t.column[1].kind, LKI_COLUMN_NUMBERS);
        assert_int_equal(t.column[2].kind, LKI_COLUMN_TEXTS);
        assert_true(number_at(&t, 0, 0) == 1 && number_at(&t, 0, 1) == 2.5);
        assert_true(number_at(&t, 1, 0) == -3 && number_at(&t, 1, 1) == 0.5);
        assert_text(&t, 0, 2, "x");
        assert_text(&t, 1, 2, "y,;z");
        lki_table_close(&t);
    }
}

/* By a loop over bytes: where the field at `at` ends, what it says, and whether its quotes are wrong. */
static const uint8_t *field_by_bytes(const uint8_t *at, const uint8_t *end, lki_field *out)
{
    while (at < end && *at == ' ') at++;
    out->wrong = NULL;
    out->text = at;
    for (; at < end && *at != ';'; at++)
        if (*at == '"') out->wrong = "a quote";
    const uint8_t *last = at;
    while (last > out->text && (last[-1] == ' ' || last[-1] == '\r')) last--;
    out->bytes = (size_t)(last - out->text);
    return at;
}

/* Fields without quotes, of any length and bytes, in records that end anywhere in a text of no byte more. */
static void plain_fields_end_where_they_do(void **state)
{
    (void)state;
    static const char alphabet[] = "aaaaaaaaaaaa;\" \r\xBB\xA2\x3A\x3C\x21\x23";
    lkt_random random = lkt_random_make("plain_fields_end_where_they_do", 3);
    for (int k = 0; k < 20000; k++) {
        const int64_t bytes = lkt_random_below(&random, 40), begin = lkt_random_below(&random, 9);
        uint8_t *text = malloc((size_t)bytes + 1);
        assert_non_null(text);
        for (int64_t i = 0; i < bytes; i++)
            text[i] = (uint8_t)alphabet[lkt_random_below(&random, (int64_t)sizeof alphabet - 1)];
        uint8_t *exact = realloc(text, (size_t)(bytes > 0 ? bytes : 1));
        assert_non_null(exact);
        const lki_csv csv = {.data = exact, .end = exact + bytes, .separator = ';', .quotes = true};
        const int64_t first = begin < bytes ? begin : 0;
        const uint8_t *at = exact + first;
        const uint8_t *end = at + lkt_random_below(&random, bytes - first + 1);
        lki_field expected, found;
        const uint8_t *word = at;
        while (word < end && *word == ' ') word++;
        if (word == end || *word != '"') {
            assert_ptr_equal(lki_csv_field(&csv, at, end, &found),
                             field_by_bytes(at, end, &expected));
            assert_ptr_equal(found.text, expected.text);
            assert_int_equal(found.bytes, expected.bytes);
            assert_int_equal(found.wrong != NULL, expected.wrong != NULL);
        }
        free(exact);
    }
}

static void missing_values_and_kinds(void **state)
{
    (void)state;
    static const char *const skip[] = {"bad"};
    static const char *const code[] = {"-1"};
    const lki_csv_opts opts = {.skips = skip, .skip_count = 1, .texts = code, .text_count = 1};
    lki_table t;
    LKT_OK(open_text(
        &t, "n,t,all,bad,zip\n,NA,nan,1,08001\nNone,u,N/A,?,8001\n3,\"a \"\"b\"\"\",null,,\n",
        &opts));
    assert_true(isnan(number_at(&t, 0, 0)) && isnan(number_at(&t, 1, 0)));
    assert_true(number_at(&t, 2, 0) == 3);
    assert_int_equal(t.column[1].kind, LKI_COLUMN_TEXTS);
    assert_text(&t, 0, 1, "");
    assert_int_equal(t.cell[1].text, 0);
    assert_text(&t, 2, 1, "a \"\"b\"\"");
    assert_int_equal(t.column[2].kind, LKI_COLUMN_NUMBERS); /* nothing tells */
    assert_true(isnan(number_at(&t, 2, 2)));
    assert_int_equal(t.column[3].kind, LKI_COLUMN_SKIPPED);
    assert_text(&t, 0, 4, "08001");
    assert_text(&t, 1, 4, "8001");
    lki_table_close(&t);
}

static void separator_and_header_as_told(void **state)
{
    (void)state;
    const lki_csv_opts comma = {.separator = ',', .header = LKI_HEADER_YES};
    const lki_csv_opts none = {.header = LKI_HEADER_NO};
    lki_table t;
    LKT_OK(open_text(&t, "2019,a;b;c\n1,2\n", &comma));
    assert_int_equal(t.columns, 2);
    assert_string_equal(t.column[0].name, "2019");
    assert_int_equal(t.rows, 1);
    lki_table_close(&t);
    LKT_OK(open_text(&t, "a\nb\n", &none));
    assert_int_equal(t.rows, 2);
    assert_int_equal(t.separator, ','); /* where there is none */
    lki_table_close(&t);
    LKT_OK(open_text(&t, "a;b,c\n1,2\n", NULL)); /* as many of both */
    assert_int_equal(t.separator, ',');
    lki_table_close(&t);
}

static void columns_are_found(void **state)
{
    (void)state;
    lki_table t;
    int found;
    LKT_OK(
        open_text(&t, ",x,x,\"q\"\"q\",1\na,1,2,3,4\n", &(lki_csv_opts){.header = LKI_HEADER_YES}));
    LKT_OK(lki_table_find(&found, &t, "q\"q"));
    assert_int_equal(found, 3);
    LKT_OK(lki_table_find(&found, &t, "1")); /* its name before its number */
    assert_int_equal(found, 4);
    LKT_OK(lki_table_find(&found, &t, "0"));
    assert_int_equal(found, 0);
    LKT_OK(lki_table_find(&found, &t, "-2"));
    assert_int_equal(found, 3);
    LKT_FAILS(LKS_E_INVALID, "has 2 columns 'x'", lki_table_find(&found, &t, "x"));
    LKT_FAILS(LKS_E_INVALID, "has no column '5'", lki_table_find(&found, &t, "5"));
    LKT_FAILS(LKS_E_INVALID, "has no column '-6'", lki_table_find(&found, &t, "-6"));
    LKT_FAILS(LKS_E_INVALID,
              "has no column 'y', expected the name of one, such as '0', or a number "
              "from 0 to 4",
              lki_table_find(&found, &t, "y"));
    lki_table_close(&t);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct fault {
        const char *text, *says;
    } faults[] = {
        {"", "is empty"},
        {"\n\r\n", "is empty"},
        {"\n\r", "is empty"},
        {"a,b", "has no rows behind its header"},
        {"a,b\n", "has no rows behind its header"},
        {"\xFF\xFE"
         "a\0",
         "is text of 16 bits"},
        {"a,b\n1,2\n3\n", "t.csv, line 3: has 1 field, expected 2 as in the first line"},
        {"a;b\n\n1;2\n3;4;5\n", "t.csv, line 4: has 3 fields, expected 2"},
        {"a,b\n1,2\n3,x1\n",
         "line 3: column 'b' has 'x1', which is no number, expected one as before"},
        {"a,b\n1,\"2\n\n3\",4\n", "line 2: has 3 fields"},
        {"a,b\n1,2\n\"5,3\n7,8\n",
         "line 3: column 'a' has '5,3?7,8?', which opens a quote that nothing"},
        {"a,b\n1,2\n5\"3,4\n", "line 3: column 'a' has '5\"3', which has a quote in the middle"},
        {"a,b\n1,2\n\"5\"3,4\n",
         "line 3: column 'a' has '5', which has text behind its closing quote"},
        {"\"a\"b,c\n1,2\n", "its first line has quotes that do not enclose a field"},
        {"a,b\n1e999,2\n", NULL},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        lki_table t;
        if (faults[i].says == NULL) { /* too large for a number, so a text */
            LKT_OK(open_text(&t, faults[i].text, NULL));
            assert_int_equal(t.column[0].kind, LKI_COLUMN_TEXTS);
        } else {
            LKT_FAILS(LKS_E_FORMAT, faults[i].says, open_text(&t, faults[i].text, NULL));
        }
        lki_table_close(&t);
    }
    lki_table t;
    const lki_csv_opts skip = {.skips = (const char *const[]){"z"}, .skip_count = 1};
    LKT_FAILS(LKS_E_INVALID, "has no column 'z'", open_text(&t, "a,b\n1,2\n", &skip));
    lki_table_close(&t);
    LKT_FAILS(LKS_E_IO, "", lki_csv_open(&t, context, "/nowhere/t.csv", &skip));
    lki_table_close(&t);
}

static void long_texts_are_refused(void **state)
{
    (void)state;
    lki_table t;
    const size_t bytes = LKI_TEXT_BYTES + 3;
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    memset(text, 'x', bytes);
    memcpy(text, "a\n", 2);
    text[bytes] = '\0';
    LKT_FAILS(LKS_E_FORMAT, "is longer than 65,535 bytes", open_text(&t, text, NULL));
    lki_table_close(&t);
    text[bytes - 1] = '\0';
    LKT_OK(open_text(&t, text, NULL));
    assert_int_equal(t.cell[0].text & LKI_TEXT_BYTES, LKI_TEXT_BYTES);
    lki_table_close(&t);
    free(text);
}

/* Random records with all that a field may have, some of them wrong. */
static size_t random_text(lkt_random *random, char *out, size_t room)
{
    static const char *const fields[] = {"1",   "-2.5e3", "",     "NA",    "\"4\"",
                                         " 7 ", "0.1",    "\"\"", "1e-30", "12345678901234567"};
    static const char *const texts[] = {"x",       "\"a\nb\"",   "\"q\"\"\n\"\"\"",
                                        "\"1,2\"", "\"\n\n\n\"", "y y"};
    const int rows = (int)lkt_random_from(random, 1, 40);
    const bool quotes = lkt_random_chance(random, 2), wrong = lkt_random_chance(random, 3);
    const char *end = lkt_random_chance(random, 2) ? "\r\n" : "\n";
    size_t used = (size_t)snprintf(out, room, "a,b,c%s1,2,u%s", end, end);
    for (int r = 0; r < rows; r++) {
        const int text = quotes ? (int)lkt_random_below(random, 6)
                                : 5 * (int)lkt_random_below(random, 2);
        used += (size_t)snprintf(
            out + used, room - used, "%s,%s,%s%s",
            fields[lkt_random_below(random, quotes ? 10 : 4)],
            wrong && lkt_random_chance(random, 20) ? "bad" : fields[lkt_random_below(random, 4)],
            texts[text], wrong && lkt_random_chance(random, 20) ? ",more" : "");
        used += (size_t)snprintf(out + used, room - used, "%s%s", end,
                                 lkt_random_chance(random, 5) ? end : "");
    }
    return used - (lkt_random_chance(random, 4) ? strlen(end) : 0);
}

static void same_for_any_threads_and_chunks(void **state)
{
    (void)state;
    static char text[8192];
    lkt_random random = lkt_random_make("csv", 3);
    int good = 0, bad = 0;
    for (int i = 0; i < 400; i++) {
        const char *path = write_text(text, random_text(&random, text, sizeof text));
        const lki_csv_opts alone = {.threads = 1},
                           many = {.threads = (int)lkt_random_from(&random, 1, 3),
                                   .chunk_bytes = (size_t)lkt_random_from(&random, 1, 60)};
        lki_table a, b;
        lks_error error = {0};
        const lks_status status = lki_csv_open(&a, context, path, &alone);
        if (status != LKS_OK) error = *lks_last_error();
        assert_int_equal(lki_csv_open(&b, context, path, &many), status);
        if (status == LKS_OK) {
            assert_int_equal(a.rows, b.rows);
            assert_memory_equal(a.cell, b.cell, lki_table_bytes(&a));
            good++;
        } else {
            assert_string_equal(error.message, lks_last_error()->message);
            bad++;
        }
        lki_table_close(&a);
        lki_table_close(&b);
    }
    assert_true(good > 100 && bad > 50);
}

/* The place of a row, and of the one that has a field too few among a million. */
static void rows_far_behind_are_named(void **state)
{
    (void)state;
    enum { ROWS = 1000000 };
    char *text = malloc(ROWS * 8 + 100), place[LKI_TABLE_PLACE];
    size_t used = 0;
    lki_table t;
    assert_non_null(text);
    used += (size_t)sprintf(text, "a,b,c\n");
    for (int i = 1; i <= ROWS; i++)
        used += (size_t)sprintf(text + used, i < ROWS ? "%d,2,3\n" : "%d,2\n", i % 10);
    LKT_FAILS(LKS_E_FORMAT, "t.csv, line 1000001: has 2 fields, expected 3",
              open_text(&t, text, NULL));
    lki_table_close(&t);
    strcpy(text + used - 1, ",\n");
    LKT_OK(open_text(&t, text, NULL));
    assert_int_equal(t.rows, ROWS);
    assert_true(isnan(number_at(&t, ROWS - 1, 2)) && number_at(&t, ROWS - 2, 0) == 9);
    assert_non_null(strstr(lki_table_place(&t, ROWS - 1, place), "t.csv, line 1000001"));
    lki_table_close(&t);
    free(text);
    LKT_OK(open_text(&t, "\na\n\n\"x\ny\"\n\nz\n", NULL));
    assert_non_null(strstr(lki_table_place(&t, 0, place), "line 4"));
    assert_non_null(strstr(lki_table_place(&t, 1, place), "line 7"));
    lki_table_close(&t);
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);

/* Behind a file that is mapped lies a page that nobody may read. (It stays when the file is unmapped.) */
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    if (file < 0 || at != NULL) return __real_mmap(at, bytes, protection, flags, file, offset);
    uint8_t *room = __real_mmap(NULL, whole + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    return __real_mmap(room, bytes, protection, flags | MAP_FIXED, file, offset);
}

/* A table that ends with `tail`, and a page with it: as it is with a line end behind that. */
static void expect_same_behind_a_page(const char *row, const char *tail, const lki_csv_opts *opts)
{
    static char text[1 << 17], place[2][LKI_TABLE_PLACE];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), length = strlen(row) + strlen(tail);
    lki_table a, b;
    lks_error error = {0};
    assert_true(page < sizeof text - 2);
    memset(text, 'n', page); /* the name of the last column fills it */
    memcpy(text, "a,b,", 4);
    text[page - length - 1] = '\n';
    snprintf(text + page - length, length + 2, "%s%s\n", row, tail);
    const lks_status status = lki_csv_open(&a, context, write_text(text, page + 1), opts);
    if (status == LKS_OK)
        lki_table_place(&a, a.rows - 1, place[0]); /* while its file is there */
    else
        error = *lks_last_error();
    assert_int_equal(lki_csv_open(&b, context, write_text(text, page), opts), status);
    if (status == LKS_OK) {
        assert_int_equal(a.rows, b.rows);
        assert_memory_equal(a.cell, b.cell, lki_table_bytes(&a));
        assert_string_equal(lki_table_place(&b, b.rows - 1, place[1]), place[0]);
    } else if (strstr(error.message, "opens a quote") == NULL) { /* whose field has the line end */
        assert_string_equal(error.message, lks_last_error()->message);
    }
    lki_table_close(&a);
    lki_table_close(&b);
}

static void nothing_behind_the_file_is_read(void **state)
{
    (void)state;
    static const char *const tails[] = {
        "3,4,y",    "3,4,",       "3,4,\"y\"",    "3,4,\"y\"\"\"", "3,4,y ",
        "3,4,y\r",  "3,4,NA",     "3,4,\"y",      "3,4,\"y\"\"",   "3,4,\"y\" ",
        "3,4",      "3",          "3,4,y,",       "3,4,y,5",       "3,,",
        ",,",       "\"",         "\n",           "3,4,5",         "3,4,1e",
        "3,4,1e5",  "3,4,-",      "3,4,.",        "3,4,5 ",        "3,4,.5",
        "3,4,-7.2", "3,4,123456", "3,4,12345678", "3,4,1.5e-7",    "3,4,12345678901234567",
        "3,4,5\r",  "3,4,+",      "3,4, ",        "3,4,\"5\"",     "3,4,5x",
        "3,4,na"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        for (int texts = 0; texts < 2; texts++)
            for (size_t bytes = 0; bytes < 12; bytes += 3) {
                const lki_csv_opts opts = {.threads = 1, .chunk_bytes = bytes};
                expect_same_behind_a_page(texts ? "1,2,x\n" : "1,2,3\n", tails[i], &opts);
            }
}

static void without_memory(void **state)
{
    (void)state;
    const char *path = write_text("a,b\n1,\"x\"\n2,y\n", 14);
    const lki_csv_opts opts = {.threads = 2, .chunk_bytes = 4};
    lks_status status = LKS_E_NOMEM;
    for (int64_t fail_at = 1; status != LKS_OK; fail_at++) {
        lkt_heap heap = {.fail_at = fail_at};
        lks_context *limited;
        lki_table t;
        assert_true(fail_at < 100);
        if (lks_context_create(
                &limited, &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}) != LKS_OK)
            continue;
        status = lki_csv_open(&t, limited, path, &opts);
        if (status != LKS_OK && status != LKS_E_NOMEM) fail_msg("%s", lks_last_error()->message);
        lki_table_close(&t);
        lks_context_destroy(limited);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_that_people_have),
        cmocka_unit_test(plain_fields_end_where_they_do),
        cmocka_unit_test(missing_values_and_kinds),
        cmocka_unit_test(separator_and_header_as_told),
        cmocka_unit_test(columns_are_found),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(long_texts_are_refused),
        cmocka_unit_test(same_for_any_threads_and_chunks),
        cmocka_unit_test(rows_far_behind_are_named),
        cmocka_unit_test(nothing_behind_the_file_is_read),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("csv", tests, set_up, tear_down);
}
