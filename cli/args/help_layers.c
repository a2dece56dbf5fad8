/* The table of layers, as help and as a page of the documents. */
#include <string.h>

#include "cli/args/help.h"
#include "cli/out/say.h"
#include "cli/out/text.h"
#include "recipe/layer.h"

/* A layer and its options, for the help or (`markdown`) for docs/ops.md. */
static void print_layer(FILE *out, const lki_layer_op *op, bool markdown)
{
    const char *at = op->options;
    lki_option_mark mark;
    if (markdown) {
        fprintf(out, "\n### %s\n\n%s\n", op->name, op->what);
        if (*at != '\0') fputs("\n| option | value | default |\n|---|---|---|\n", out);
    } else {
        const int used = fprintf(out, "\n%s: ", op->name) - 1;
        text_print_wrapped(out, op->what, used, 4, HELP_WIDTH);
    }
    for (lki_option_id id; (id = lki_option_next(&at, &mark)) != LKI_OPTION_COUNT;) {
        char expected[160], text[256];
        lki_spec_describe(&lki_layer_options[id], expected, sizeof expected);
        if (markdown) {
            fprintf(out, "| `%s`%s | %s | %s |\n", lki_layer_options[id].name,
                    mark.required ? ", required" : "", expected, mark.fallback);
            continue;
        }
        const int used = fprintf(out, "  %s%-*s ", lki_layer_options[id].name,
                                 (int)(18 - strlen(lki_layer_options[id].name)),
                                 mark.required ? "!" : "");
        snprintf(text, sizeof text, "%s%s%s", expected, *mark.fallback != '\0' ? "; default " : "",
                 mark.fallback);
        text_print_wrapped(out, text, used, used, HELP_WIDTH);
    }
}

static void print_layers(FILE *out, bool markdown)
{
    for (int i = 0; i < lki_layer_op_count; i++) print_layer(out, &lki_layer_ops[i], markdown);
    fputs(markdown ? "\n## Losses\n\nA configuration has them as `loss.name`; lines of `lockstep "
                     "op` by these names.\n"
                   : "\nLosses, for lines of `lockstep op` (a configuration has loss.name):\n",
          out);
    for (int i = 0; i < lki_layer_loss_count; i++) print_layer(out, &lki_layer_losses[i], markdown);
}

static const char inits[] =
    "Of the numbers of an init, scale is for uniform and normal, value for constant,\n"
    "gain for xavier, and slope (of a leaky relu) and fan_out for kaiming.\n";

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
          "`input` is the name of what the list begins with.\n",
          out);
    fputs(inits, out);
    print_layers(out, false);
}

void help_layers_markdown(FILE *out)
{
    fputs(
        "# Operations\n\nMade from the tables of the program, by `tools/make_docs`. These are the "
        "layers of `model.layers`\n([program.md](program.md)) and the operations of `lockstep op`; "
        "formulas, shapes and PyTorch's names\nare in `include/lockstep/graph.h`. The first option "
        "may be given alone: `dense: 10`.\n\n",
        out);
    fputs(inits, out);
    fputs("\n## Layers\n", out);
    print_layers(out, true);
}
