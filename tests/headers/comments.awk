# SPDX-License-Identifier: MIT
# comments.awk: reads C files; prints each comment that breaks a rule of comments.sh, as FILE:LINE: text, and exits 1. -v public=1: the rules of
# public headers too.
function complain(text) { printf "%s:%d: %s\n", FILENAME, first, text; faults = 1 }
function close_paragraph()
{
    if (public && paragraph > 60)
        complain("a paragraph or a point of " paragraph " words; at most 60")
    paragraph = 0
}
# One line of a comment, without its marks.
function read_line(text,    words, count, item, table)
{
    table = text ~ /^   *[^ -].*/ && text !~ /^ *- / && !in_item
    item = text ~ /^ *- /
    if (item || text ~ /^ *$/) {
        close_paragraph()
        in_item = item
    }
    if (table)
        close_paragraph()
    if (item) {
        list = 1
        sub(/^ *- /, "", text)
    }
    if ((item || total == 0) && text ~ /^ *(\/\/)? *([Ww]hat|[Tt]hose|[Ii]t|[Tt]hat)([^A-Za-z_*(]|$)/)
        complain("begins with \"" substr(text, 1, 30) "\": name the subject")
    count = split(text, words, " ")
    total += count
    if (!table)
        paragraph += count
}
function begin_comment() { first = FNR; total = 0; paragraph = 0; list = 0; in_item = 0 }
function end_comment()
{
    close_paragraph()
    if (public && total > 60 && !list)
        complain(total " words without a list; above 60 a comment is one")
    comments++
}
{
    line = $0
    while (1) {
        if (inside) {
            end = index(line, "*/")
            text = end ? substr(line, 1, end - 1) : line
            sub(/^ *\* ?/, "", text)
            read_line(text)
            if (!end)
                break
            end_comment()
            inside = 0
            line = substr(line, end + 2)
        }
        # Strings and characters, in which no comment begins.
        while (match(line, /^([^"'\/]|\/[^*\/"'])+/) || match(line, /^("([^"\\]|\\.)*"|'([^'\\]|\\.)*')/))
            line = substr(line, RLENGTH + 1)
        if (substr(line, 1, 2) == "//") {
            begin_comment()
            read_line(substr(line, 3))
            end_comment()
            break
        }
        if (substr(line, 1, 2) != "/*") {
            if (line == "")
                break
            line = substr(line, 2)
            continue
        }
        begin_comment()
        inside = 1
        line = substr(line, 3)
        # A comment that opens and goes on: its first line counts as text.
        end = index(line, "*/")
        if (!end) {
            sub(/^ */, "", line)
            read_line(line)
            break
        }
        sub(/^ */, "", line)
    }
}
FNR == 1 { files++ }
END {
    if (!faults)
        print comments " comments in " files " files"
    exit faults + 0
}
