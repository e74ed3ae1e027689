/* SPDX-License-Identifier: MIT */
/* device/name.c: reading and writing device names. */
#include "device/name.h"
#include "base/config.h"
#include "base/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_bytes(const char *value, uint64_t *out)
{
    char digits[64];
    size_t length = strlen(value);
    unsigned shift = 0;
    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, value, length + 1);
    switch (digits[length - 1]) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    if (shift != 0)
        digits[length - 1] = '\0';
    uint64_t number;
    if (!ph__config_u64(digits, &number) || number > (UINT64_MAX >> shift))
        return false;
    *out = number << shift;
    return true;
}

static ph_status fail_setting(const ph__config_pair *pair, const char *name, const char *call)
{
    static const struct {
        const char *key, *values;
    } known[] = {{"threads", "0 to 1024"},
                 {"chaos", "a number from 0 to 18446744073709551615"},
                 {"memory", "a number of bytes, with k, m or g for 2^10, 2^20 or 2^30 of them"},
                 {"poison", "0 or 1"},
                 {"reuse", "0 or 1"}};
    const char *equals = pair->value[0] ? "=" : "";
    if (pair->key[0] == '\0' && pair->value[0] == '\0')
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL,
                               "%s: device name \"%s\" has a setting that is empty or far too long",
                               call, name);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(pair->key, known[i].key) == 0)
            return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL,
                                   "%s: setting \"%s%s%s\" in device name \"%s\": %s must be %s",
                                   call, pair->key, equals, pair->value, name, pair->key,
                                   known[i].values);
    return ph__fail_native(
        PH_ERROR_ARGUMENT, 0, NULL,
        "%s: setting \"%s%s%s\" in device name \"%s\" is unknown; the settings are "
        "threads=N, chaos=SEED, memory=BYTES (k, m, g), poison=0|1, reuse=0|1",
        call, pair->key, equals, pair->value, name);
}

static ph_status apply_setting(ph_device_options *options, const ph__config_pair *pair,
                               const char *name, const char *call)
{
    uint64_t number = 0;
    bool flag = false;
    if (strcmp(pair->key, "threads") == 0 && ph__config_u64(pair->value, &number) && number <= 1024)
        options->host_threads = (uint32_t)number;
    else if (strcmp(pair->key, "chaos") == 0 && ph__config_u64(pair->value, &number))
        options->host_chaos_seed = number;
    else if (strcmp(pair->key, "memory") == 0 && parse_bytes(pair->value, &number))
        options->host_memory_bytes = number;
    else if (strcmp(pair->key, "poison") == 0 && ph__config_bool(pair->value, &flag))
        options->debug_poison = flag;
    else if (strcmp(pair->key, "reuse") == 0 && ph__config_bool(pair->value, &flag))
        options->no_reuse_in_capture = !flag;
    else
        return fail_setting(pair, name, call);
    return PH_OK;
}

static ph_status parse_settings(ph_device_options *options, const char *text, const char *name,
                                const char *call)
{
    ph__config_pair pair;
    while (ph__config_next(&text, &pair))
        PH_TRY(apply_setting(options, &pair, name, call));
    return PH_OK;
}

ph_status ph__device_name_parse(ph__device_name *out, ph_device_options *options, const char *name,
                                const char *call)
{
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    memset(out, 0, sizeof *out);
    if (length < sizeof out->driver)
        memcpy(out->driver, name, length);
    if (strcmp(out->driver, "auto") != 0 && strcmp(out->driver, "host") != 0 &&
        strcmp(out->driver, "cuda") != 0)
        return ph__fail_native(PH_ERROR_NOT_FOUND, 0, NULL,
                               "%s: no device is called \"%.40s\"; the names are \"auto\", "
                               "\"host\" and \"cuda\", with settings "
                               "after a colon, as in \"host:threads=2\"",
                               call, name);
    if (!colon)
        return PH_OK;
    const char *rest = colon + 1;
    if (*rest >= '0' && *rest <= '9') {
        char *end;
        unsigned long ordinal = strtoul(rest, &end, 10);
        if ((*end != '\0' && *end != ':') || ordinal > 1023)
            return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL,
                                   "%s: \"%.40s\" has a malformed device number", call, name);
        out->ordinal = (uint32_t)ordinal;
        rest = *end == ':' ? end + 1 : end;
    }
    return parse_settings(options, rest, name, call);
}

static void append_option(char out[PH__DEVICE_NAME_BYTES], const char *separator, const char *key,
                          uint64_t value)
{
    size_t used = strlen(out);
    char piece[48];
    int length =
        snprintf(piece, sizeof piece, "%s%s=%llu", separator, key, (unsigned long long)value);
    if (length > 0 && used + (size_t)length < PH__DEVICE_NAME_BYTES)
        memcpy(out + used, piece, (size_t)length + 1);
}

void ph__device_name_format(char out[PH__DEVICE_NAME_BYTES], const char *driver, uint32_t ordinal,
                            const ph_device_options *options)
{
    if (ordinal != 0)
        (void)snprintf(out, PH__DEVICE_NAME_BYTES, "%s:%u", driver, (unsigned)ordinal);
    else
        (void)snprintf(out, PH__DEVICE_NAME_BYTES, "%s", driver);
    const struct {
        const char *key;
        uint64_t value;
        bool say;
    } settings[] = {
        {"threads", options->host_threads, options->host_threads != 0},
        {"chaos", options->host_chaos_seed, options->host_chaos_seed != 0},
        {"poison", 1, options->debug_poison},
        {"reuse", 0, options->no_reuse_in_capture},
        {"memory", options->host_memory_bytes, options->host_memory_bytes != 0},
    };
    const char *separator = ":";
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (!settings[i].say)
            continue;
        append_option(out, separator, settings[i].key, settings[i].value);
        separator = ",";
    }
}
