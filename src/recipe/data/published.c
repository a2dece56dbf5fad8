#include "recipe/data/published.h"

#include <string.h>

const char *const lki_idx_names[LKI_IDX_FILES] = {
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
};

/* 60,000 images of 28x28, in 10 classes. */
#define LIKE_MNIST                                                                                 \
    {                                                                                              \
        .samples = 60000, .shape = {3, {28, 28, 1}}, .dtype = LKS_U8, .classes = 10                \
    }

static const lki_published_file mnist_files[LKI_IDX_FILES] = {
    {"train-images-idx3-ubyte", 9912422,
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte", 28881,
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte", 1648877,
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte", 4542,
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
};

/* As in TensorFlow Datasets, url_checksums/fashion_mnist.txt. */
static const lki_published_file fashion_files[LKI_IDX_FILES] = {
    {"train-images-idx3-ubyte", 26421880,
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", NULL},
    {"train-labels-idx1-ubyte", 29515,
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", NULL},
    {"t10k-images-idx3-ubyte", 4422102,
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", NULL},
    {"t10k-labels-idx1-ubyte", 5148,
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", NULL},
};

static const char *const fashion_classes[10] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};

const lki_published lki_published_table[] = {
    {.name = "digits", .info = LIKE_MNIST, .keys = "seed"},
    {.name = "mnist",
     .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist",
                 "https://storage.googleapis.com/cvdf-datasets/mnist"},
     .file_count = LKI_IDX_FILES,
     .files = mnist_files,
     .info = LIKE_MNIST},
    {.name = "fashion_mnist",
     .alias = "fashion",
     .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
     .file_count = LKI_IDX_FILES,
     .files = fashion_files,
     .info = LIKE_MNIST,
     .classes = fashion_classes},
};
const int lki_published_count = sizeof lki_published_table / sizeof *lki_published_table;

const lki_published *lki_published_find(const char *name)
{
    for (int i = 0; i < lki_published_count; i++)
        if (strcmp(lki_published_table[i].name, name) == 0) return &lki_published_table[i];
    return NULL;
}

const lki_published *lki_published_find_word(const char *word)
{
    for (int i = 0; i < lki_published_count; i++) {
        const char *alias = lki_published_table[i].alias;
        if (alias != NULL && strcmp(alias, word) == 0) return &lki_published_table[i];
    }
    return lki_published_find(word);
}
