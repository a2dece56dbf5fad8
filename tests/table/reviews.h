/* A table of texts with a class each. */
#ifndef LKT_REVIEWS_H
#define LKT_REVIEWS_H

#include "cli/program.h"

enum { ROWS = 400 };

/* Words of no meaning around one that has some: its row is good or bad by it. */
static inline void write_reviews(const char *name, int rows, const char *more)
{
    static const char *const words[] = {"the",  "film",  "was", "a",    "story", "with",
                                        "some", "music", "and", "long", "river"};
    static const char *const telling[2][3] = {{"dull", "awful", "boring"},
                                              {"great", "lovely", "wonderful"}};
    static char csv[65536];
    size_t used = (size_t)snprintf(csv, sizeof csv, "id,review,label\n");
    for (int i = 0; i < rows; i++) {
        const int good = (i * 7 + i / 3) % 2, length = 3 + i % 9, at = i * 5 % length;
        used += (size_t)snprintf(csv + used, sizeof csv - used, "%d,", i);
        const bool quoted = i % 10 == 0; /* a comma and doubled quotes */
        if (quoted) used += (size_t)snprintf(csv + used, sizeof csv - used, "\"he, \"\"said\"\"");
        for (int w = 0; w < length; w++)
            used += (size_t)snprintf(
                csv + used, sizeof csv - used, "%s%s", w > 0 || quoted ? " " : "",
                w == at ? telling[good][i % 3] : words[(i * 31 + w * 17 + i * w) % 11]);
        used += (size_t)snprintf(csv + used, sizeof csv - used, "%s,%s\n", quoted ? "\"" : "",
                                 good ? "good" : "bad");
    }
    snprintf(csv + used, sizeof csv - used, "%s", more);
    write_text(name, csv);
}

#endif
