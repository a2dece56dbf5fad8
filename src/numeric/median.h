/* The middle of some numbers. */
#ifndef LKI_NUMERIC_MEDIAN_H
#define LKI_NUMERIC_MEDIAN_H

/* Of `count` values, at least one, whose order is changed; of two in the middle the mean. */
double lki_median(double *value, int count);
/* The median of those that are not below it. */
double lki_upper_quartile(double *value, int count);

#endif
