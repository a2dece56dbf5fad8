/* One operation as a line, as `lockstep op` takes it and logs print it: what is printed is read as
 * the same operation. */
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "recipe/network/layers.h"
#include "fuzz/fuzz.h"

enum { LINE = LKS_LINE_SIZE };

/* Builds the operation of a line, prints it, and says how large its output is. */
static lks_status build(const char *line, char printed[LINE], int64_t *elements)
{
    static lks_context *context;
    lks_graph *graph;
    lks_tensor *tensor = NULL;
    int64_t samples = 0;
    if (context == NULL)
        FUZZ_CHECK(lks_context_create(&context, &(lks_context_opts){.device = "ref"}) == LKS_OK);
    lki_heap heap = {0};
    FUZZ_CHECK(lks_graph_create(&graph, context) == LKS_OK);
    const lks_status status = lki_layers_build_line(&tensor, &samples, &heap, graph, line);
    if (status == LKS_OK) {
        FUZZ_CHECK(tensor != NULL && samples > 0);
        const lks_shape shape = lks_tensor_shape(tensor);
        *elements = lks_shape_elements(&shape);
        lks_tensor_line(tensor, samples, printed, LINE);
    } else {
        fuzz_check_failure(status);
    }
    lks_graph_destroy(graph);
    lki_heap_clear(&heap);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char line[LINE], once[LINE], twice[LINE];
    int64_t size[2];
    if (bytes >= sizeof line) return 0;
    memcpy(line, data, bytes);
    line[bytes] = '\0';
    if (build(line, once, &size[0]) != LKS_OK) return 0;
    FUZZ_CHECK(build(once, twice, &size[1]) == LKS_OK);
    FUZZ_CHECK(strcmp(once, twice) == 0 && size[0] == size[1]);
    return 0;
}
