/* Cells of the tables that bench and op print: numbers that fit their column. */
#ifndef CLI_RATES_H
#define CLI_RATES_H

/* What stands below a column of shares of the peak. */
#define RATES_PEAK_NOTE                                                                            \
    "Work is counted as it is defined: where a kernel skips zeros, its share of the peak can "     \
    "exceed 100%."

/* "12.3" of 12.3e9; "" where it is 0. Both return `text`. */
const char *rate_text(char text[24], double per_second);
/* "45%" of 0.45, "0.4%" of 0.004, "" of 0. */
const char *share_text(char text[24], double share);

#endif
