/* The data set in a folder, in whichever of the known formats it is. */
#include "data/format.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/check.h"

#define FORMAT(id) &lki_##id##_format,
static const lki_data_format *const formats[] = {LKI_DATA_FORMAT_LIST(FORMAT)};
enum { FORMATS = sizeof formats / sizeof *formats };

static const lki_data_format *probe(const char *folder, bool test_split)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i]->has(folder, test_split)) return formats[i];
    return NULL;
}

bool lks_dataset_folder_has(const char *folder, bool test_split)
{
    return folder && probe(folder, test_split) != NULL;
}

lks_status lks_dataset_open_folder(lks_dataset **out, lks_context *context, const char *folder,
                                   bool test_split, int64_t classes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    struct stat about;
    *out = NULL;
    if (!folder || stat(folder, &about) != 0)
        return LKI_FAIL(LKS_E_IO,
                        "there is no folder '%s'; expected one with the files of a data set",
                        folder ? folder : "");
    const lki_data_format *format = probe(folder, test_split);
    if (format) return format->open(out, context, folder, test_split, classes);
    char expected[512];
    size_t used = 0;
    for (int i = 0; i < FORMATS && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s",
                                 i > 0 ? "; or " : "", formats[i]->files[test_split]);
    return LKI_FAIL(LKS_E_IO, "'%s' has no %s samples; expected %s", folder,
                    test_split ? "test" : "training", expected);
}

lks_status lks_dataset_open_mnist(lks_dataset **out, lks_context *context, const char *folder,
                                  bool test_split)
{
    return lks_dataset_open_folder(out, context, folder, test_split, 10);
}
