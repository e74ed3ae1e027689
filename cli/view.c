/* SPDX-License-Identifier: MIT */
/* cli/view.c: `phonograph view`: a record's JSON file as one HTML file that needs nothing else. */
#include "view.h"
#include "cli.h"
#include <stdlib.h>
#include <string.h>

struct options {
    const char *path, *output;
};

static int parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool output = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0;
        if (output && i + 1 == argc)
            return cli_usage_error("view: %s wants a file, such as graph.html", argv[i]);
        if (output)
            o->output = argv[++i];
        else if (argv[i][0] == '-' && argv[i][1] != '\0')
            return cli_usage_error("view: unknown option '%s'", argv[i]);
        else if (o->path)
            return cli_usage_error("view: one file at a time, but there is '%s' too", argv[i]);
        else
            o->path = argv[i];
    }
    if (!o->path)
        return cli_usage_error("view: which file? (- is standard input)");
    if (strcmp(o->path, "-") == 0 && !o->output)
        return cli_usage_error(
            "view: standard input has no name to make one from: -o FILE.html (- is standard output)");
    return EXIT_SUCCESS;
}

/* graph.json becomes graph.html, beside it. */
static char *name_beside(const char *path)
{
    size_t length = strlen(path);
    if (length > 5 && strcmp(path + length - 5, ".json") == 0)
        length -= 5;
    char *name = malloc(length + sizeof ".html");
    if (name) {
        memcpy(name, path, length);
        memcpy(name + length, ".html", sizeof ".html");
    }
    return name;
}

struct page {
    const view *shown;
    json_t *layouts;
};

static bool put_page(FILE *out, void *user)
{
    const struct page *page = user;
    (void)fputs(view_page_head, out);
    bool good = view_put_json(out, page->shown, page->layouts);
    (void)fputs(view_page_tail, out);
    return good;
}

static ph_status write_page(const struct options *o, file_record *record)
{
    view shown = {0};
    struct page page = {.shown = &shown};
    char *beside = o->output ? NULL : name_beside(o->path);
    const char *output = o->output ? o->output : beside;
    ph_status st = view_make(&shown, record, load_name(o->path));
    if (st == PH_OK && !output)
        st = view_no_memory(&shown);
    if (st == PH_OK)
        st = view_layouts(&page.layouts, &shown);
    if (st == PH_OK && strcmp(output, "-") == 0)
        st = put_page(stdout, &page) ? PH_OK : view_no_memory(&shown);
    else if (st == PH_OK)
        st = view_write_file(output, put_page, &page);
    if (st == PH_OK && !o->output) {
        cli_put_text(stdout, output);
        (void)putchar('\n');
    }
    json_decref(page.layouts);
    view_free(&shown);
    free(beside);
    return st;
}

int cli_view(int argc, char **argv)
{
    struct options o = {0};
    file_record *record;
    int status = parse(&o, argc, argv);
    if (status != EXIT_SUCCESS)
        return status;
    if (!view_has_page()) {
        (void)fputs("phonograph: view: this command was built without D3, which draws the page: install the "
                    "Debian package node-d3 "
                    "and build again (./build.sh does both)\n",
                    stderr);
        return EXIT_FAILURE;
    }
    if (file_record_read(&record, o.path) != PH_OK)
        return cli_failed();
    return write_page(&o, record) == PH_OK ? EXIT_SUCCESS : cli_failed();
}
