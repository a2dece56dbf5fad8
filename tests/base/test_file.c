/* Files: reading, gzip, whole writes. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static void writes_and_reads(void **state)
{
    (void)state;
    char path[4200];
    snprintf(path, sizeof path, "%s/a/b/file", lkt_make_folder());
    *strrchr(path, '/') = '\0';
    LKT_OK(lki_folder_make(path));
    strcat(path, "/file");
    lki_writer *writer;
    LKT_OK(lki_writer_open(&writer, NULL, path));
    LKT_OK(lki_writer_write(writer, "hello", 5));
    LKT_OK(lki_writer_commit(writer));
    lki_file file;
    LKT_OK(lki_file_open(&file, NULL, path));
    assert_int_equal(file.bytes, 5);
    assert_memory_equal(file.data, "hello", 5);
    lki_file_close(&file);
    lkt_remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_and_reads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
