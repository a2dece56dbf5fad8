/* How a parameter starts, as an attribute: its kind, and numbers that some kinds have. */
#ifndef LKI_CORE_ATTRIBUTE_INIT_H
#define LKI_CORE_ATTRIBUTE_INIT_H

#include <lockstep/graph.h>

#include "core/attribute.h"

/* In the order of lks_init_kind. */
#define LKI_INIT_WORDS                                                                             \
    "default zeros ones uniform normal kaiming_uniform kaiming_normal xavier_uniform "             \
    "xavier_normal constant"

#define LKI_INIT_PART(type_, struct_, init, what, name_, ...)                                      \
    {                                                                                              \
        .name = name_, .type = LKI_##type_, .offset = offsetof(struct_, init.what),                \
        .size = sizeof(((struct_ *)NULL)->init.what), .part = true, __VA_ARGS__                    \
    }

/* Lines of a table, for the members weight_init and bias_init of a struct of options. */
#define LKI_WEIGHT_INIT(struct_)                                                                   \
    LKI_WEIGHT_INIT_OF(struct_, LKI_INIT_WORDS " identity partial_identity")
#define LKI_WEIGHT_INIT_OF(struct_, words)                                                         \
    LKI_ATTRIBUTE(INIT, struct_, weight_init, .range = words, .fallback = "default"),              \
        LKI_INIT_PART(FLOAT, struct_, weight_init, scale, "weight_scale", .range = "(0,)"),        \
        LKI_INIT_PART(FLOAT, struct_, weight_init, value, "weight_value", .fallback = "0"),        \
        LKI_INIT_PART(FLOAT, struct_, weight_init, gain, "weight_gain", .range = "(0,)",           \
                      .fallback = "1"),                                                            \
        LKI_INIT_PART(FLOAT, struct_, weight_init, slope, "weight_slope", .fallback = "0"),        \
        LKI_INIT_PART(BOOL, struct_, weight_init, fan_out, "weight_fan_out", .fallback = "false")
#define LKI_BIAS_INIT(struct_)                                                                     \
    LKI_ATTRIBUTE(INIT, struct_, bias_init, .range = LKI_INIT_WORDS, .fallback = "default"),       \
        LKI_INIT_PART(FLOAT, struct_, bias_init, scale, "bias_scale", .range = "(0,)"),            \
        LKI_INIT_PART(FLOAT, struct_, bias_init, value, "bias_value", .fallback = "0")

lks_status lki_init_check(const lki_attribute *attribute, const lks_init *init, const char *who);

/* "kaiming_normal:0.01:fan_out", "uniform:0.1": the kind, its number where it has one (slope, gain and
 * value too) that is not the default. Returns text. */
const char *lki_init_print(const lki_attribute *attribute, const lks_init *init, char *text,
                           size_t size);

#endif
