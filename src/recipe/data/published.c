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

/* The archives of the binary version; the MD5 on their page are c32a1d4ab5d03f1284b67883e8d87530 and
 * 03b5dce01913d631647c71ecec9e9cb8. */
static const lki_published_file cifar10_files[] = {
    {"cifar-10-binary.tar", 170052171,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", NULL},
};

/* As Keras has them, datasets/cifar10.py and cifar100.py; their MD5 are c58f30108f718f92721af3b95e74349a and
 * eb9058c3a382ffc7106e4002c42a8d85. */
static const lki_published_file cifar10_pickled = {
    "cifar-10-python.tar", 170498071,
    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce", NULL};
static const lki_published_file cifar100_pickled = {
    "cifar-100-python.tar", 169001437,
    "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7", NULL};

static const lki_published_file cifar100_files[] = {
    {"cifar-100-binary.tar", 168513733,
     "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", NULL},
};

static const char *const cifar10_classes[10] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
};

static const char *const cifar100_classes[100] = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm",
};

/* Images of 32x32 in colours. */
#define LIKE_CIFAR(count)                                                                          \
    {                                                                                              \
        .samples = 50000, .shape = {3, {32, 32, 3}}, .dtype = LKS_U8, .classes = count             \
    }

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
    {.name = "cifar10",
     .mirrors = {"https://www.cs.toronto.edu/~kriz"},
     .file_count = 1,
     .files = cifar10_files,
     .pickled = &cifar10_pickled,
     .info = LIKE_CIFAR(10),
     .classes = cifar10_classes},
    {.name = "cifar100",
     .mirrors = {"https://www.cs.toronto.edu/~kriz"},
     .file_count = 1,
     .files = cifar100_files,
     .pickled = &cifar100_pickled,
     .info = LIKE_CIFAR(100),
     .classes = cifar100_classes},
    {.name = "dummy",
     .info = {.samples = 100, .shape = {3, {224, 224, 3}}, .dtype = LKS_U8, .classes = 1000},
     .keys = "seed shape"},
    {.name = "checkerboard",
     .info = {.samples = 1, .shape = {3, {3, 3, 1}}, .dtype = LKS_F32},
     .keys = "shape"},
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
