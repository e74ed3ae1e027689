/* SPDX-License-Identifier: MIT */
/* digits/main.c: trains a small network on handwritten digits, eagerly and then replayed, and
 * compares the two. */
#include "report.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2,
    WANTED_PERCENT = 96,
    MOST_EPOCHS = 1000
};

struct options {
    const char *data, *report, *losses, *device;
    enum form form;
    size_t epochs;
    uint64_t seed;
    bool quiet;
};

static void usage(FILE *out)
{
    (void)fputs(
        "usage: digits [OPTIONS]\n\n"
        "Trains a 64-128-10 network on handwritten digits twice from one seed: eagerly, and with "
        "the "
        "whole step\n"
        "captured and replayed. Both must agree to the last bit and read 96 % of a held-out "
        "quarter "
        "right.\n\n"
        "  --form FORM     of a step: kernels of its own, or modules with an optimizer (kernels)\n"
        "  --data FILE     the images (examples/digits/data/digits.csv.gz)\n"
        "  --report FILE   the HTML report to write (digits-report.html)\n"
        "  --losses FILE   also every loss of the replayed run, a line each, to compare devices "
        "by\n"
        "  --epochs N      1 to 1000 (30)\n"
        "  --seed N        of weights, split and order (1)\n"
        "  --device NAME   such as cuda or host:threads=2 (auto: a GPU where there is one)\n"
        "  --quiet         no progress and no table\n"
        "  --help          this text\n\n"
        "Exit status: 0 all is well, 1 it is not, 2 bad options.\n",
        out);
}

static bool parse_number(const char *name, const char *text, uint64_t least, uint64_t most,
                         uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least || value > most) {
        (void)fprintf(stderr, "digits: --%s wants a whole number from %llu to %llu, not '%s'\n",
                      name, (unsigned long long)least, (unsigned long long)most, text);
        return false;
    }
    *out = value;
    return true;
}

static bool parse_form(const char *text, enum form *out)
{
    *out = strcmp(text, "modules") == 0 ? FORM_MODULES : FORM_KERNELS;
    if (*out == FORM_MODULES || strcmp(text, "kernels") == 0)
        return true;
    (void)fprintf(stderr, "digits: --form wants kernels or modules, not '%s'\n", text);
    return false;
}

/* Returns an exit status, or -1 to go on. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"form", required_argument, NULL, 'f'},   {"data", required_argument, NULL, 'd'},
        {"report", required_argument, NULL, 'r'}, {"losses", required_argument, NULL, 'l'},
        {"epochs", required_argument, NULL, 'e'}, {"seed", required_argument, NULL, 's'},
        {"device", required_argument, NULL, 'v'}, {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int option;
    bool good = true;
    while (good && (option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        uint64_t epochs = o->epochs;
        switch (option) {
        case 'd':
            o->data = optarg;
            break;
        case 'f':
            good = parse_form(optarg, &o->form);
            break;
        case 'r':
            o->report = optarg;
            break;
        case 'l':
            o->losses = optarg;
            break;
        case 'e':
            good = parse_number("epochs", optarg, 1, MOST_EPOCHS, &epochs);
            o->epochs = (size_t)epochs;
            break;
        case 's':
            good = parse_number("seed", optarg, 0, UINT64_MAX, &o->seed);
            break;
        case 'v':
            o->device = optarg;
            break;
        case 'q':
            o->quiet = true;
            break;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        default:
            good = false;
        }
    }
    if (good && optind < argc) {
        (void)fprintf(stderr, "digits: unexpected argument '%s'\n", argv[optind]);
        good = false;
    }
    if (!good)
        usage(stderr);
    return good ? -1 : EXIT_USAGE;
}

/* Only for eyes: a file or a pipe gets the table alone. */
static void show_progress(const run *r, size_t epoch, size_t epochs, float loss)
{
    char bar[41];
    size_t filled = epoch * (sizeof bar - 1) / epochs;
    for (size_t i = 0; i < sizeof bar - 1; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[sizeof bar - 1] = '\0';
    (void)fprintf(stderr, "\r%-8s [%s] epoch %zu of %zu, loss %.5f%s", r->name, bar, epoch, epochs,
                  (double)loss, epoch == epochs ? "\n" : "");
    (void)fflush(stderr);
}

static void show_table(const run *a, const run *b, const spread *ratio, const trainer *t)
{
    char text[SPREAD_TEXT];
    double steps = (double)t->steps;
    ph_device_info device = {0};
    if (ph_device_get_info(&device, t->device) == PH_OK)
        (void)printf("device %s: %s\n", device.name, device.description);
    (void)printf("%zu losses and %d weights of both runs: equal to the last bit\n\n", t->steps,
                 WEIGHTS1 + WEIGHTS2);
    (void)printf("%-28s %14s %14s\n", "", a->name, b->name);
    (void)printf("%-28s %11.1f us %11.1f us\n", "time per step, median", a->step_us, b->step_us);
    (void)printf("%-28s %s\n", "eager / replayed", spread_text(text, ratio));
    (void)printf("%-28s %14g %14g\n", "allocations per step", (double)a->allocations / steps,
                 (double)b->allocations / steps);
    (void)printf("%-28s %14zu %14zu\n", "pool bytes", a->pool_bytes, b->pool_bytes);
    (void)printf("%-28s %14zu %14zu\n", "of them in use at most", a->pool_peak, b->pool_peak);
    (void)printf("%-28s %14s %14zu\n", "nodes", "-", b->nodes);
    (void)printf("%-28s %14s %14zu\n", "edges", "-", b->edges);
    (void)printf("%-28s %14s %11.0f us\n", "capture and instantiate", "-", b->capture_us);
    (void)printf("%-28s %12.2f %% %12.2f %%\n", "accuracy on the held-out", run_accuracy(a, t),
                 run_accuracy(b, t));
}

static ph_status check_promises(const run *eager, const run *replayed, const trainer *t)
{
    if (replayed->allocations != 0)
        return ph_fail(PH_ERROR_MISMATCH, "replaying made %llu allocations, expected none",
                       (unsigned long long)replayed->allocations);
    const run *runs[] = {eager, replayed};
    for (size_t i = 0; i < 2; i++)
        if (100 * runs[i]->right < WANTED_PERCENT * t->test_count)
            return ph_fail(
                PH_ERROR_MISMATCH,
                "the %s run read %.2f %% of the held-out images right, expected at least %d %%",
                runs[i]->name, run_accuracy(runs[i], t), WANTED_PERCENT);
    return PH_OK;
}

static ph_status train_both(run *eager, run *replayed, trainer *t, const struct options *o)
{
    epoch_fn progress = !o->quiet && isatty(STDERR_FILENO) ? show_progress : NULL;
    PH_TRY(train_eagerly(eager, t, progress));
    PH_TRY(train_replayed(replayed, t, progress));
    PH_TRY(runs_equal(eager, replayed, t));
    report r = {.trainer = t, .eager = eager, .replayed = replayed, .seed = o->seed};
    PH_TRY(compare_in_turns(&r.ratio, eager, replayed, t));
    if (!o->quiet)
        show_table(eager, replayed, &r.ratio, t);
    PH_TRY(ph_graph_record(&r.record, t->graph));
    PH_TRY(report_write(&r, o->report));
    if (o->losses)
        PH_TRY(losses_write(replayed, t, o->losses));
    if (!o->quiet)
        (void)printf("\nreport: %s\n", o->report);
    return check_promises(eager, replayed, t);
}

static ph_status demonstrate(const struct options *o)
{
    digits data;
    trainer t;
    run eager = {0}, replayed = {0};
    PH_TRY(digits_read(&data, o->data));
    ph_status st = trainer_create(&t, o->form, o->device, &data, o->epochs, o->seed);
    digits_free(&data);
    if (st != PH_OK)
        return st;
    st = train_both(&eager, &replayed, &t, o);
    run_free(&eager);
    run_free(&replayed);
    trainer_destroy(&t);
    return st;
}

int main(int argc, char **argv)
{
    struct options o = {.data = "examples/digits/data/digits.csv.gz",
                        .report = "digits-report.html",
                        .device = "auto",
                        .epochs = 30,
                        .seed = 1};
    int exit_status = parse_options(&o, argc, argv);
    if (exit_status >= 0)
        return exit_status;
    if (demonstrate(&o) != PH_OK) {
        (void)fprintf(stderr, "digits: %s\n", ph_error_last()->message);
        return EXIT_FAILURE;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "digits: the table cannot be written: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
