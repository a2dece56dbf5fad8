/* What a table's file has in each of its columns, as it lies there. */
#ifndef LKI_RECIPE_RUN_COUNTS_H
#define LKI_RECIPE_RUN_COUNTS_H

#include <lockstep/recipe.h>

typedef struct lki_column_count {
    const char *name;
    bool text;
    int64_t missing;
    double mean, deviation, least, most; /* of numbers; NaN where there is none */
    int64_t texts;                       /* different ones */
} lki_column_count;

typedef struct lki_table_counts {
    const char *path;
    int64_t rows;
    int columns; /* without those of data.ignore */
    const lki_column_count *column;
} lki_table_counts;

/* Of all rows of data.table or data.series, or of data.test_table where there is one and the test's are wanted. It lasts as long as the
 * recipe, which has a table or a series. */
LKS_MUSTUSE lks_status lki_table_count(lki_table_counts *out, lks_recipe *recipe,
                                       lks_context *context, bool test);

#endif
