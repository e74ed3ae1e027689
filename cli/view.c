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
        return cli_usage_error("view: standard input has no name to make one from: -o FILE.html (- "
                               "is standard output)");
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

/* Before anything is read: a record must not become its own page, nor somebody's file a page
 * that nobody asked for there. */
static int check_output(const struct options *o, const char *output, const char *beside)
{
    if (strcmp(output, "-") == 0)
        return EXIT_SUCCESS;
    if (view_same_file(o->path, output))
        return cli_usage_error(
            "view: %s names the record itself (%s); give another name, such as %s",
            o->output ? "-o" : output, load_name(o->path),
            o->output && beside && !view_same_file(o->path, beside) ? beside : "graph.html");
    if (o->output || !view_is_other_file(output))
        return EXIT_SUCCESS;
    ph_ignore(ph_fail(
        PH_ERROR_IO,
        "%s: is there already, and is no page that phonograph wrote; it stays as it is: -o %s "
        "replaces it",
        output, output));
    return cli_failed();
}

/* What is kept of a record, however long its file is: as much as the page can draw and a browser
 * holds. Its text takes eleven times the memory once it is read. */
static const cut bounds = {
    .most = {[CUT_OTHER] = SIZE_MAX, [CUT_NODES] = 50000, [CUT_BLOCKS] = 100000},
    .most_bytes = (size_t)96 << 20};

static void say_left(const char *path, const cut *left)
{
    if (!cut_is_short(left))
        return;
    (void)fputs("phonograph: view: ", stderr);
    cli_put_text(stderr, load_name(path));
    (void)fprintf(stderr,
                  ": too large for a page: it has the first %zu nodes, with the edges between "
                  "them; left out are "
                  "%zu nodes and %zu blocks of memory\n",
                  left->kept[CUT_NODES], left->left[CUT_NODES], left->left[CUT_BLOCKS]);
}

static ph_status write_page(const struct options *o, file_record *record, const cut *left,
                            const char *output)
{
    view shown = {0};
    struct page page = {.shown = &shown};
    ph_status st = view_make(&shown, record, load_name(o->path));
    shown.left_nodes = left->left[CUT_NODES];
    shown.left_blocks = left->left[CUT_BLOCKS];
    if (st == PH_OK)
        st = view_layouts(&page.layouts, &shown);
    if (st == PH_OK && strcmp(output, "-") == 0)
        st = put_page(stdout, &page) ? PH_OK : view_no_memory(&shown);
    else if (st == PH_OK)
        st = view_write_file(output, put_page, &page);
    if (st == PH_OK)
        say_left(o->path, left);
    if (st == PH_OK && !o->output) {
        cli_put_text(stdout, output);
        (void)putchar('\n');
    }
    json_decref(page.layouts);
    view_free(&shown);
    return st;
}

static int view_record(const struct options *o)
{
    file_record *record;
    cut left = bounds;
    char *beside = name_beside(strcmp(o->path, "-") == 0 ? "graph.json" : o->path);
    if (!beside) {
        ph_ignore(ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory to show it", load_name(o->path)));
        return cli_failed();
    }
    const char *output = o->output ? o->output : beside;
    int status = check_output(o, output, beside);
    if (status == EXIT_SUCCESS && (file_record_read_some(&record, o->path, &left) != PH_OK ||
                                   write_page(o, record, &left, output) != PH_OK))
        status = cli_failed();
    free(beside);
    return status;
}

int cli_view(int argc, char **argv)
{
    struct options o = {0};
    int status = parse(&o, argc, argv);
    if (status != EXIT_SUCCESS)
        return status;
    if (!view_has_page()) {
        (void)fputs("phonograph: view: this command was built without D3, which draws the page: "
                    "install the "
                    "Debian package node-d3 "
                    "and build again (./build.sh does both)\n",
                    stderr);
        return EXIT_FAILURE;
    }
    return view_record(&o);
}
