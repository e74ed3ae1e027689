/* SPDX-License-Identifier: MIT */
/* base/text_file.c: writing a text to a file. */
#include "base/text_file.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

ph_status ph__text_write_file(ph__text *text, const char *path, const char *call)
{
    ph__file file;
    if (path && text->failed)
        return ph__fail_host_memory(call, "the text of the file");
    PH_TRY(ph__file_create(&file, path, call));
    ph_status status = ph__file_write(&file, text->at, text->length);
    if (status == PH_OK)
        return ph__file_commit(&file);
    ph__file_abandon(&file);
    return status;
}
