# SPDX-License-Identifier: MIT
# pages.awk: reads pages; prints each paragraph or point of a list above 120 words, as FILE:LINE: text, and exits 1. Code, tables, headings and
# comments are not text.
function flush()
{
    if (words > 120) {
        printf "%s:%d: %d words in one paragraph or point; make points of it\n", page, first, words
        faults = 1
    }
    words = 0
}
FNR == 1 { flush(); code = 0; comment = 0; pages++; page = FILENAME }
/^<!--/ && !/-->/ { comment = 1 }
comment { if (/-->/) comment = 0; next }
/^ *```/ { flush(); code = !code; next }
code || /^$/ || /^[|#]/ || /^<!--/ { flush(); next }
/^    / && words == 0 { next }
/^ *([*-]|[0-9]+\.) / { flush() }
{ if (words == 0) first = FNR; words += NF; texts += NF }
END {
    flush()
    if (!faults)
        print texts " words in " pages " pages"
    exit faults + 0
}
