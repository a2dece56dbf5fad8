/* JPEG by libjpeg-turbo. */
#include "data/pictures/picture.h"

#include <stdio.h>

#include "base/check.h"

#if defined(LKI_HAVE_JPEG)

#include <setjmp.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "base/memory.h"
#include "data/pictures/exif.h"

enum {
    MOST_SCANS = 500
}; /* of a progressive file: each may cost as much as a picture, and take few bytes */

typedef struct jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char reason[JMSG_LENGTH_MAX];
    bool starved; /* no memory, which says nothing of the picture */
    lki_resize *to;
    uint8_t *row; /* as the resizer takes it, and behind it as a picture of four inks has it */
    size_t row_bytes;
    uint8_t *whole; /* a picture that does not stand upright */
    size_t whole_bytes;
} jpeg;

static void leave_jpeg(j_common_ptr info)
{
    jpeg *j = info->client_data;
    info->err->format_message(info, j->reason);
    j->starved = info->err->msg_code == JERR_OUT_OF_MEMORY;
    longjmp(j->back, 1);
}

/* Warnings are of damage, whose pixels would be guessed, but for those of what does not matter. */
static void complain(j_common_ptr info, int level)
{
    const int code = info->err->msg_code;
    if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
        code == JWRN_ADOBE_XFORM)
        return;
    leave_jpeg(info);
}

static void count_scans(j_common_ptr info)
{
    jpeg *j = info->client_data;
    if (j->info.input_scan_number <= MOST_SCANS) return;
    snprintf(j->reason, sizeof j->reason, "it has more than %d scans", MOST_SCANS);
    longjmp(j->back, 1);
}

/* Rows that are halved alone were upsampled in two ways by two versions of the library. */
static bool halves_rows_alone(const struct jpeg_decompress_struct *info)
{
    const jpeg_component_info *c = info->comp_info;
    return info->num_components == 3 && c[0].h_samp_factor == c[1].h_samp_factor &&
           c[0].v_samp_factor == 2 * c[1].v_samp_factor;
}

static void choose(struct jpeg_decompress_struct *info)
{
    const bool inks = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    info->do_block_smoothing = FALSE;
    info->do_fancy_upsampling = !halves_rows_alone(info);
}

static void mix(uint8_t *out, const uint8_t *inks, int width)
{
    for (int x = 0; x < width; x++, out += 3, inks += 4)
        for (int c = 0; c < 3; c++) out[c] = (uint8_t)((inks[c] * inks[3] + 127) / 255);
}

static int orientation_of(const struct jpeg_decompress_struct *info)
{
    int found = 1;
    for (jpeg_saved_marker_ptr m = info->marker_list; m != NULL && found == 1; m = m->next)
        found = lki_exif_orientation(m->data, m->data_length);
    return found;
}

/* The size is the upright picture's. Where that is another its rows are known when all have come. */
static lks_status begin_picture(jpeg *j, int orientation)
{
    const JDIMENSION height = j->info.image_height, width = j->info.image_width;
    void *memory;
    LKI_TRY(lki_exif_lies(orientation) ? lki_resize_begin(j->to, width, height)
                                       : lki_resize_begin(j->to, height, width));
    if (orientation == 1) return LKS_OK;
    j->whole_bytes = (size_t)height * width * LKI_PICTURE_CHANNELS;
    LKI_TRY(lki_alloc(j->to->context, &memory, j->whole_bytes, "turning a picture"));
    j->whole = memory;
    return LKS_OK;
}

static void end_picture(jpeg *j, int orientation)
{
    const int height = (int)j->info.image_height, width = (int)j->info.image_width;
    for (int row = 0; row < (lki_exif_lies(orientation) ? width : height); row++) {
        lki_exif_row(j->row, j->whole, height, width, orientation, row);
        lki_resize_row(j->to, j->row);
    }
}

static lks_status run_jpeg(jpeg *j, const uint8_t *data, size_t bytes)
{
    struct jpeg_decompress_struct *info = &j->info;
    if (setjmp(j->back) != 0)
        return LKI_FAIL(j->starved ? LKS_E_NOMEM : LKS_E_FORMAT, "JPEG: %s", j->reason);
    jpeg_create_decompress(info);
    info->progress = &j->progress;
    jpeg_mem_src(info, data, bytes);
    jpeg_save_markers(info, JPEG_APP0 + 1, UINT16_MAX);
    jpeg_read_header(info, TRUE);
    const int orientation = orientation_of(info);
    LKI_TRY(begin_picture(j, orientation));
    choose(info);
    jpeg_start_decompress(info);
    const size_t width = info->output_width, height = info->output_height;
    void *memory;
    j->row_bytes = (width > height ? width : height) *
                   (size_t)(LKI_PICTURE_CHANNELS + info->output_components);
    LKI_TRY(lki_alloc(j->to->context, &memory, j->row_bytes, "a row of a picture"));
    j->row = memory;
    const bool inks = info->output_components == 4;
    uint8_t *line = inks ? j->row + width * LKI_PICTURE_CHANNELS : j->row;
    while (info->output_scanline < info->output_height) {
        jpeg_read_scanlines(info, &line, 1);
        if (inks) mix(j->row, line, (int)width);
        if (j->whole == NULL)
            lki_resize_row(j->to, j->row);
        else
            memcpy(j->whole + (info->output_scanline - 1) * width * LKI_PICTURE_CHANNELS, j->row,
                   width * LKI_PICTURE_CHANNELS);
    }
    if (j->whole != NULL) end_picture(j, orientation);
    return LKS_OK;
}

lks_status lki_jpeg_decode(lki_resize *to, const uint8_t *data, size_t bytes)
{
    jpeg j = {.to = to, .progress.progress_monitor = count_scans};
    j.info.client_data = &j;
    j.info.err = jpeg_std_error(&j.errors);
    j.errors.error_exit = leave_jpeg;
    j.errors.emit_message = complain;
    const lks_status status = run_jpeg(&j, data, bytes);
    jpeg_destroy_decompress(&j.info);
    lki_free(to->context, j.row, j.row_bytes);
    lki_free(to->context, j.whole, j.whole_bytes);
    return status;
}

#else

lks_status lki_jpeg_decode(lki_resize *to, const uint8_t *data, size_t bytes)
{
    (void)to, (void)data, (void)bytes;
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "this is JPEG, but the program was built without libjpeg-turbo; install it (on "
                    "Debian: apt-get install libjpeg-dev), then configure and build again");
}

#endif
