/* The table of layers, as help and as a page of the documents. */
#include <string.h>

#include <lockstep/tools.h>

#include "cli/args/help.h"
#include "cli/out/say.h"
#include "cli/out/text.h"

/* A layer and its options, for the help or (`markdown`) for docs/ops.md. */
static void print_layer(FILE *out, lks_list list, int number, bool markdown)
{
    const char *what = "", *name = lks_list_name(list, number, &what);
    lks_option option;
    if (markdown) {
        fprintf(out, "\n### %s\n\n%s\n", name, what);
        if (lks_list_option(list, number, 0, &option))
            fputs("\n| option | value | default |\n|---|---|---|\n", out);
    } else {
        const int used = fprintf(out, "\n%s: ", name) - 1;
        text_print_wrapped(out, what, used, 4, HELP_WIDTH);
    }
    for (int i = 0; lks_list_option(list, number, i, &option); i++) {
        const char *standard = option.standard != NULL ? option.standard : "";
        char text[256];
        if (markdown) {
            fprintf(out, "| `%s`%s | %s | %s |\n", option.name, option.required ? ", required" : "",
                    option.expected, standard);
            continue;
        }
        const int used = fprintf(out, "  %s%-*s ", option.name, (int)(18 - strlen(option.name)),
                                 option.required ? "!" : "");
        snprintf(text, sizeof text, "%s%s%s", option.expected,
                 *standard != '\0' ? "; default " : "", standard);
        text_print_wrapped(out, text, used, used, HELP_WIDTH);
    }
}

static void print_list(FILE *out, lks_list list, bool markdown)
{
    for (int i = 0; lks_list_name(list, i, NULL) != NULL; i++) print_layer(out, list, i, markdown);
}

static void print_layers(FILE *out, bool markdown)
{
    print_list(out, LKS_LIST_LAYERS, markdown);
    fputs(markdown ? "\n## Losses\n\nA configuration has them as `loss.name`; lines of `lockstep "
                     "op` by these names.\n"
                   : "\nLosses, for lines of `lockstep op` (a configuration has loss.name):\n",
          out);
    print_list(out, LKS_LIST_LOSSES, markdown);
    fputs(markdown ? "\n## Augmentations\n\nWhat `data.augment` does to training images "
                     "([numerics.md](numerics.md) has the formulas).\n"
                   : "\nAugmentations, for the list data.augment:\n",
          out);
    print_list(out, LKS_LIST_AUGMENTATIONS, markdown);
}

static const char inits[] =
    "A layer without a name is called by its operation and a number (conv2d_1), and\n"
    "one without from reads the layer before it. Of the numbers of an init, scale is\n"
    "for uniform and normal, which need it, value for constant, gain for xavier, and\n"
    "slope (of a leaky relu) and fan_out for kaiming.\n";

void help_layers_print(FILE *out)
{
    fputs("model:\n  layers:\n    - conv2d: {filters: 32, kernel: 3}\n    - relu\n"
          "    - max_pool: 2\n    - flatten\n    - dense: 10\n\n"
          "Layers and their options; ! marks what is required, and the first may be given\n"
          "alone. Any layer may have a name: of its parameters in files, and for layers\n"
          "after it, which begin there (from) or take it as second operand (with), as a\n"
          "skip connection does:\n"
          "    - conv2d: {name: conv1, filters: 8, kernel: 3, padding: 1}\n"
          "    - relu\n    - add: {with: conv1}\n"
          "`input` is the name of what the list begins with.\n\n"
          "What there is several times is a block, a list in model.blocks with parameters:\n"
          "  blocks:\n    unit:\n      - conv2d: {name: conv, filters: $n, kernel: 3, padding: 1}\n"
          "      - relu\n"
          "  layers:\n    - {block: unit, name: body.0, repeat: 2, with: {n: 8}}\n"
          "gives body.0.conv and body.1.conv. In a block `input` is what it begins with.\n\n",
          out);
    fputs(inits, out);
    print_layers(out, false);
}

void help_layers_markdown(FILE *out)
{
    fputs(
        "# Operations\n\nMade from the tables of the program, by `tools/make_docs`. These are the "
        "layers of `model.layers`\n([program.md](program.md)) and, but for `transformer`, which is "
        "several, the operations of `lockstep op`; "
        "formulas, shapes and PyTorch's names\nare in `include/lockstep/graph.h`. The first option "
        "may be given alone: `dense: 10`.\n\n",
        out);
    fputs(inits, out);
    fputs("\n## Layers\n", out);
    print_layers(out, true);
}
