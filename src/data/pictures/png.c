/* PNG by libpng. */
#include "data/pictures/picture.h"

#include <stdio.h>

#include "base/check.h"

#if defined(LKI_HAVE_PNG)

#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "base/memory.h"

typedef struct png {
    png_structp png;
    png_infop info;
    const uint8_t *data;
    size_t left;
    char reason[160];
    bool starved; /* no memory, which says nothing of the picture */
    lki_resize *to;
    uint8_t *pixels; /* a row, or of an interlaced picture all of them */
    size_t bytes;
} png;

static void leave_png(png_structp inner, png_const_charp message)
{
    png *p = png_get_error_ptr(inner);
    snprintf(p->reason, sizeof p->reason, "%s", message);
    png_longjmp(inner, 1);
}

static void ignore_warning(png_structp inner, png_const_charp message)
{
    (void)inner, (void)message;
}

static png_voidp allocate(png_structp inner, png_alloc_size_t bytes)
{
    png *p = png_get_mem_ptr(inner);
    void *memory = malloc(bytes);
    p->starved |= memory == NULL;
    return memory;
}

static void release(png_structp inner, png_voidp memory)
{
    (void)inner;
    free(memory);
}

static void take_bytes(png_structp inner, png_bytep out, size_t count)
{
    png *p = png_get_io_ptr(inner);
    if (count > p->left) png_error(inner, "the file is cut off");
    memcpy(out, p->data, count);
    p->data += count;
    p->left -= count;
}

/* Whatever there is becomes three bytes a pixel. */
static void choose(const png *p)
{
    png_set_expand(p->png);
    png_set_strip_16(p->png);
    png_set_strip_alpha(p->png);
    png_set_gray_to_rgb(p->png);
}

static lks_status run_png(png *p)
{
    if (setjmp(png_jmpbuf(p->png)) != 0)
        return LKI_FAIL(p->starved ? LKS_E_NOMEM : LKS_E_FORMAT, "PNG: %s", p->reason);
    p->info = png_create_info_struct(p->png);
    if (p->info == NULL) return LKI_FAIL(LKS_E_NOMEM, "out of memory for a PNG file");
    png_set_read_fn(p->png, p, take_bytes);
    png_read_info(p->png, p->info);
    const size_t height = png_get_image_height(p->png, p->info),
                 width = png_get_image_width(p->png, p->info);
    LKI_TRY(lki_resize_begin(p->to, height, width));
    choose(p);
    const int passes = png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    const size_t row = width * LKI_PICTURE_CHANNELS;
    if (png_get_rowbytes(p->png, p->info) != row)
        return LKI_FAIL(LKS_E_FORMAT, "PNG: its pixels have a form that is not known");
    void *memory;
    p->bytes = passes > 1 ? row * height : row;
    LKI_TRY(lki_alloc(p->to->context, &memory, p->bytes, "the pixels of a PNG file"));
    p->pixels = memory;
    for (int pass_number = 1; pass_number <= passes; pass_number++)
        for (size_t y = 0; y < height; y++) {
            uint8_t *at = passes > 1 ? p->pixels + y * row : p->pixels;
            png_read_row(p->png, at, NULL);
            if (pass_number == passes) lki_resize_row(p->to, at);
        }
    png_read_end(p->png, NULL);
    return LKS_OK;
}

lks_status lki_png_decode(lki_resize *to, const uint8_t *data, size_t bytes)
{
    png p = {.data = data, .left = bytes, .to = to};
    p.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &p, leave_png, ignore_warning, &p,
                                     allocate, release);
    if (p.png == NULL) return LKI_FAIL(LKS_E_NOMEM, "out of memory for a PNG file");
    const lks_status status = run_png(&p);
    png_destroy_read_struct(&p.png, &p.info, NULL);
    lki_free(to->context, p.pixels, p.bytes);
    return status;
}

#else

lks_status lki_png_decode(lki_resize *to, const uint8_t *data, size_t bytes)
{
    (void)to, (void)data, (void)bytes;
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "this is PNG, but the program was built without libpng; install it (on Debian: "
                    "apt-get install libpng-dev), then configure and build again");
}

#endif
