/* SPDX-License-Identifier: MIT */
/* digits/html.c: pages of one file: the style that reports share, text, and a file that is replaced
 * whole or not at all. */
#include "html.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char style[] =
    ":root{color-scheme:light "
    "dark;--page:#f5f6f8;--card:#fff;--ink:#1a1f29;--soft:#5a6372;--line:#dde1e8;"
    "--eager:#d9730d;--replayed:#1a66c9;--good:#1d7a3e;--bad:#c22f2f;--lane0:#e8f0fb;--lane1:#"
    "fdf0e2}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#12151b;--card:#1b2029;--ink:#e8ebf0;--soft:#"
    "a2abb9;--"
    "line:#333b48;"
    "--eager:#f0974a;--replayed:#6ea8f5;--good:#5fc585;--bad:#f27f7f;--lane0:#1d2c42;--lane1:#"
    "3a2c1c}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:2rem 1rem "
    "3rem;max-width:70rem;background:var(--page);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.1rem;margin:0 0 .6rem}\n"
    "header p{margin:0;color:var(--soft)}\n"
    ".facts{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:1rem;margin:1.4rem 0 "
    "1rem;padding:0;"
    "list-style:none}\n"
    ".facts li,section{background:var(--card);border:1px solid "
    "var(--line);border-radius:.7rem;padding:1rem "
    "1.1rem}\n"
    ".facts b{display:block;font-size:1.5rem;line-height:1.25}.facts "
    "span{color:var(--soft);font-size:.9rem}\n"
    "main{display:grid;grid-template-columns:1fr 1fr;gap:1rem;align-items:start}\n"
    "main>div{display:grid;gap:1rem;min-width:0}section{min-width:0}\n"
    "@media(max-width:52rem){main{grid-template-columns:minmax(0,1fr)}.facts{grid-template-columns:"
    "1fr "
    "1fr}}\n"
    "@media(max-width:30rem){.digits{grid-template-columns:repeat(4,minmax(0,1fr))!important}}\n"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font:13px "
    "system-ui,sans-serif;text-anchor:middle}\n"
    "svg .tick{fill:var(--soft);font-size:12px}svg .end{text-anchor:end}svg "
    ".label{text-anchor:start;font-size:15px}\n"
    "svg .label.end{text-anchor:end}\n"
    ".grid{stroke:var(--line);fill:none}.curve{fill:none;stroke-linejoin:round}\n"
    ".curve.eager{stroke:var(--eager);stroke-width:4.5;opacity:.55}.curve.replayed{stroke:var(--"
    "replayed);"
    "stroke-width:1.2}\n"
    ".bar.eager{fill:var(--eager)}.bar.replayed{fill:var(--replayed)}\n"
    ".swatch{display:inline-block;width:1.4rem;height:.3rem;border-radius:.2rem;margin:0 .4rem "
    ".2rem "
    "0;vertical-align:middle}\n"
    ".swatch.eager{background:var(--eager);height:.5rem}.swatch.replayed{background:var(--replayed)"
    ";margin-"
    "left:1rem}\n"
    ".edge{fill:none;stroke:var(--soft);stroke-width:1.4}.tip{fill:var(--soft)}\n"
    ".node rect{stroke:var(--line);stroke-width:1}.lane0 rect{fill:var(--lane0)}.lane1 "
    "rect{fill:var(--lane1)}\n"
    ".node text.small{fill:var(--soft);font-size:11px}.graph svg{max-width:30rem;margin:0 auto}\n"
    ".key,.note{margin:.5rem 0 0;color:var(--soft);font-size:.9rem}\n"
    ".digits{display:grid;grid-template-columns:repeat(6,minmax(0,1fr));gap:.7rem}\n"
    "figure{margin:0;text-align:center;font-size:.85rem}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}\n"
    "figure svg{border:2px solid var(--good);border-radius:.35rem;fill:var(--ink);padding:2px}\n"
    "figure.wrong "
    "svg{border-color:var(--bad)}figure.wrong{color:var(--bad)}figure.right{color:var(--good)}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:"
    "tabular-nums;"
    "font-size:.93rem}\n"
    "th,td{padding:.35rem .5rem;border-bottom:1px solid "
    "var(--line);text-align:left;vertical-align:top}\n"
    "thead th{color:var(--soft);font-weight:600}tbody th{font-weight:400}.numbers td,.numbers "
    "thead "
    "th+th{text-align:right}\n"
    "@media(max-width:30rem){.numbers{font-size:.82rem}.numbers th,.numbers td{padding:.35rem "
    ".2rem}}\n"
    "details{margin-top:.8rem}summary{cursor:pointer;color:var(--soft)}\n";

void begin_page(FILE *out, const char *title)
{
    (void)fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
                out);
    put_text(out, title);
    (void)fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style);
}

void end_page(FILE *out)
{
    (void)fputs("</body>\n</html>\n", out);
}

void put_device(FILE *out, const ph_device *device)
{
    ph_device_info info = {0};
    if (ph_device_get_info(&info, device) != PH_OK)
        info = (ph_device_info){.name = "unknown"};
    (void)fputs("Device <code>", out);
    put_text(out, info.name);
    (void)fputs("</code>", out);
    if (info.description[0]) {
        (void)fputs(": ", out);
        put_text(out, info.description);
    }
    if (info.threads > 0) /* of the host device */
        (void)fprintf(out, ", %u thread%s", info.threads, info.threads == 1 ? "" : "s");
    (void)fprintf(out, ". phonograph %s.", ph_version());
}

void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            (void)fputc(*text, out);
        }
    }
}

static ph_status io_failed(const char *what, const char *path)
{
    return ph_fail(PH_ERROR_IO, "%s: %s: %s; the previous file, if there was one, is as it was",
                   path, what, strerror(errno));
}

static bool write_all(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(file, text, bytes);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
    return true;
}

static ph_status write_in_place(const char *path, const char *text, size_t bytes)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return ph_fail(PH_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    bool written = write_all(file, text, bytes);
    int number = errno;
    if (close(file) != 0 && written) {
        written = false;
        number = errno;
    }
    return written ? PH_OK
                   : ph_fail(PH_ERROR_IO, "%s: cannot be written: %s", path, strerror(number));
}

/* The temporary file gets the mode that the report would have had. */
static ph_status write_temporary(int file, const char *path, const char *text, size_t bytes,
                                 mode_t mode)
{
    bool written = fchmod(file, mode) == 0 && write_all(file, text, bytes) && fsync(file) == 0;
    int number = errno;
    if (close(file) != 0 && written) {
        written = false;
        number = errno;
    }
    errno = number;
    return written ? PH_OK : io_failed("cannot be written", path);
}

static ph_status replace_regular(const char *path, const char *text, size_t bytes, mode_t mode)
{
    static const char suffix[] = ".XXXXXX";
    size_t length = strlen(path);
    char *temporary = malloc(length + sizeof suffix);
    if (!temporary)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the name of a temporary file beside %s",
                       path);
    memcpy(temporary, path, length);
    memcpy(temporary + length, suffix, sizeof suffix);
    int file = mkostemp(temporary, O_CLOEXEC);
    ph_status st = file < 0 ? io_failed("no temporary file can be made beside it", path)
                            : write_temporary(file, path, text, bytes, mode);
    if (st == PH_OK && rename(temporary, path) != 0)
        st = io_failed("cannot be replaced", path);
    if (st != PH_OK && file >= 0)
        (void)unlink(temporary);
    free(temporary);
    return st;
}

static mode_t new_file_mode(void)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    return 0666 & ~mask;
}

ph_status replace_file(const char *path, const char *text, size_t bytes)
{
    struct stat there;
    if (stat(path, &there) != 0) {
        if (errno != ENOENT)
            return ph_fail(PH_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
        return replace_regular(path, text, bytes, new_file_mode());
    }
    if (S_ISDIR(there.st_mode))
        return ph_fail(PH_ERROR_IO, "%s: is a folder; name a file in it", path);
    if (!S_ISREG(there.st_mode))
        return write_in_place(path, text, bytes);

    /* A symbolic link stays, and what it leads to is replaced. */
    char *target = realpath(path, NULL);
    if (!target)
        return ph_fail(PH_ERROR_IO, "%s: cannot be resolved: %s", path, strerror(errno));
    ph_status st = replace_regular(target, text, bytes, there.st_mode & 07777);
    free(target);
    return st;
}

ph_status finish_text(FILE *stream)
{
    bool failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    return failed ? ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report") : PH_OK;
}
