# SPDX-License-Identifier: MIT
# make.awk: manual pages from the public headers.
# usage: awk -v out=DIR -v version=V -v date=D -v root=INCLUDE -f make.awk HEADER...
# Writes DIR/man3/CALL.3 and DIR/man7/phonograph-HEADER.7. Calls that share a comment share a page: DIR/links has "PAGE CALL" for each of
# the others. Any POSIX awk.

# ---- reading ----
function begin_file()
{
    file = FILENAME
    sub(root "/", "", file)
    files[++file_count] = file
    comments_seen = section = section_title = comment = declaration = ""
    group = depth = skipping = 0
}
# A line of a comment without its marks.
function strip_marks(text)
{
    sub(/^\/\* ?/, "", text)
    sub(/^ \* ?/, "", text)
    sub(/ *\*\/ *$/, "", text)
    return text
}
function end_comment(text)
{
    comments_seen++
    if (comments_seen == 1)
        return
    if (comments_seen == 2) {
        sub(/^phonograph\/[a-z_\/]*\.h: /, "", text)
        header_text[file] = text
        return
    }
    group = 0
    if (text ~ /^---- .* ----/) {
        section_title = text
        sub(/^---- /, "", section_title)
        sub(/ ----.*/, "", section_title)
        sub(/\n.*/, "", section_title)
        section = text
        sub(/^---- [^\n]* ----[ \n]*/, "", section)
        comment = ""
    } else
        comment = text
}
# Code without its comments, on one line.
function plain(text)
{
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, " ", text)
    gsub(/[ \n]+/, " ", text)
    return text
}
function end_declaration(text,    code, name)
{
    code = plain(text)
    if (code ~ /^(PH_API|PH_CALL|static inline)/ && match(code, /ph_[a-z0-9_]+\(/))
        add_call(substr(code, RSTART, RLENGTH - 1), text, code)
    else if (code ~ /^typedef/ && code ~ /[{(]/) {
        if (match(code, /\(\*ph_[a-z0-9_]+\)/))
            name = substr(code, RSTART + 2, RLENGTH - 3)
        else if (match(code, /\} ph_[a-z0-9_]+;/))
            name = substr(code, RSTART + 2, RLENGTH - 3)
        if (name) {
            type_text[name] = text
            type_comment[name] = group ? "" : comment
        }
    }
}
function add_call(name, text, code,    note)
{
    if (!group) {
        group = ++group_count
        group_file[group] = file
        group_comment[group] = comment
        group_section[group] = section
        group_title[group] = section_title
    }
    if (name in call_group)
        return
    if (code ~ /^static inline/) {
        sub(/ *\{.*/, "", code)
        text = code ";"
    } else if (match(text, /\/\*.*\*\/ *$/)) {
        note = substr(text, RSTART + 2)
        sub(/ *\*\/ *$/, "", note)
        gsub(/\n *\*? */, " ", note)
        sub(/^ */, "", note)
        text = substr(text, 1, RSTART - 1)
        sub(/ *$/, "", text)
    }
    call_group[name] = group
    call_text[name] = text
    call_note[name] = note
    group_calls[group] = group_calls[group] (group_calls[group] ? " " : "") name
    file_calls[file] = file_calls[file] (file_calls[file] ? " " : "") name
    calls[++call_count] = name
}
FNR == 1 { begin_file() }
inside {
    gathered = gathered "\n" strip_marks($0)
    if ($0 ~ /\*\//) {
        inside = 0
        end_comment(gathered)
    }
    next
}
skipping {
    if ($0 ~ /^#(else|endif)/)
        skipping = 0
    next
}
!declaration && /^#if.*__cplusplus/ { skipping = 1; next }
!declaration && /^#/ { continued = $0 ~ /\\$/; next }
continued { continued = $0 ~ /\\$/; next }
!declaration && /^\/\*/ {
    gathered = strip_marks($0)
    if ($0 ~ /\*\//)
        end_comment(gathered)
    else
        inside = 1
    next
}
!declaration && (/^ *$/ || /^PH_(BEGIN|END)_DECLS/) { next }
{
    declaration = declaration (declaration ? "\n" : "") $0
    code = plain(declaration)
    opened = gsub(/\{/, "{", code)
    closed = gsub(/\}/, "}", code)
    if (opened == closed && (code ~ /; *$/ || (code ~ /^static inline/ && code ~ /\} *$/))) {
        end_declaration(declaration)
        declaration = ""
    }
}

# ---- writing ----
# Lines of a page. A break of paragraphs is left out where one is already, and before what breaks by itself.
function put(page, text,    lines, count, i)
{
    count = split(text, lines, "\n")
    if (count == 0)
        print "" > page
    for (i = 1; i <= count; i++) {
        if (lines[i] == ".PP") {
            paragraph = 1
            continue
        }
        if (paragraph && lines[i] !~ /^\.(SH|SS|TP|IP)/ && last !~ /^\.(SH|SS)/)
            print ".PP" > page
        paragraph = 0
        print lines[i] > page
        last = lines[i]
    }
}
function escape(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/\n\./, "\n\\\\\\&.", text)
    gsub(/\n'/, "\n\\\\\\&'", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}
# A comment: paragraphs, points ("- "), and tables, which are indented and kept as they are.
function write_text(page, text,    lines, count, i, line, kept)
{
    count = split(text, lines, "\n")
    for (i = 1; i <= count; i++) {
        line = lines[i]
        if (line ~ /^   +[^ -]/ && !point) {
            if (!kept)
                put(page, ".PP\n.nf")
            kept = 1
            put(page, escape(line))
            continue
        }
        if (kept)
            put(page, ".fi")
        kept = 0
        if (line ~ /^ *$/) {
            if (i < count)
                put(page, ".PP")
            point = 0
        } else if (line ~ /^ *- /) {
            sub(/^ *- /, "", line)
            put(page, ".IP \\(bu 2")
            put(page, escape(line))
            point = 1
        } else {
            sub(/^ +/, "", line)
            put(page, escape(line))
        }
    }
    if (kept)
        put(page, ".fi")
    point = 0
}
# The first sentence of a comment, in one line that a list can hold.
function summary(text, otherwise)
{
    sub(/\n *- .*/, "", text)
    gsub(/\n/, " ", text)
    sub(/^ +/, "", text)
    if (match(text, /[.:;]( |$)/))
        text = substr(text, 1, RSTART - 1)
    if (text == "")
        text = otherwise
    if (length(text) > 90) {
        text = substr(text, 1, 90)
        sub(/ [^ ]*$/, " ...", text)
    }
    return text
}
function page_name(of,    name)
{
    name = of
    sub(/^phonograph\//, "", name)
    sub(/\.h$/, "", name)
    gsub(/\//, "-", name)
    return name == "phonograph" ? "phonograph" : "phonograph-" name
}
# The types with a body that a text names, each once, those that they name first.
function gather_types(text, level,    code, name)
{
    code = plain(text)
    while (match(code, /ph_[a-z0-9_]+/)) {
        name = substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
        if (!(name in type_text) || (name in gathered_types))
            continue
        gathered_types[name] = 1
        if (level < 2)
            gather_types(type_text[name], level + 1)
        type_list[++type_count] = name
    }
}
function write_types(page, names, count,    i, name)
{
    split("", gathered_types)
    type_count = 0
    for (i = 1; i <= count; i++)
        gather_types(call_text[names[i]], 1)
    if (!type_count)
        return
    put(page, ".SH TYPES")
    for (i = 1; i <= type_count; i++) {
        name = type_list[i]
        if (type_comment[name])
            write_text(page, type_comment[name])
        put(page, (i > 1 || type_comment[name] ? ".PP\n" : "") ".nf")
        put(page, escape(type_text[name]))
        put(page, ".fi")
        if (i < type_count)
            put(page, ".PP")
    }
}
function write_head(page, title, part)
{
    put(page, ".\\\" SPDX-License-Identifier: MIT")
    put(page, ".TH " title " " part " " date " \"phonograph " version "\" \"phonograph\"")
}
function write_notes(page, names, count,    i)
{
    for (i = 1; i <= count; i++)
        if (call_note[names[i]]) {
            put(page, ".TP\n.B " names[i])
            put(page, escape(call_note[names[i]]))
        }
}
function returns_status(names, count,    i)
{
    for (i = 1; i <= count; i++)
        if (call_text[names[i]] ~ /^PH_CALL/)
            return 1
    return 0
}
function write_calls(g,    names, count, i, page, title, list)
{
    count = split(group_calls[g], names, " ")
    page = out "/man3/" names[1] ".3"
    write_head(page, names[1], 3)
    put(page, ".SH NAME")
    title = group_title[g] ? group_title[g] : summary(header_text[group_file[g]])
    for (i = 1; i <= count; i++)
        list = list names[i] (i < count ? ",\n" : " \\- ")
    put(page, list escape(summary(group_comment[g] ? group_comment[g] : call_note[names[1]], title)))
    put(page, ".SH SYNOPSIS\n.nf\n#include <" group_file[g] ">\n")
    for (i = 1; i <= count; i++)
        put(page, escape(call_text[names[i]]))
    put(page, ".fi\n.SH DESCRIPTION")
    if (group_comment[g])
        write_text(page, group_comment[g])
    write_notes(page, names, count)
    if (group_section[g]) {
        if (group_comment[g])
            put(page, ".SS " toupper(substr(escape(group_title[g]), 1, 1)) substr(escape(group_title[g]), 2))
        write_text(page, group_section[g])
    } else if (!group_comment[g])
        write_text(page, header_text[group_file[g]])
    write_types(page, names, count)
    if (returns_status(names, count)) {
        put(page, ".SH RETURN VALUE")
        put(page, "Calls declared with PH_CALL return PH_OK, or a ph_status that says what failed.")
        put(page, ".BR ph_error_last (3)\nhas the message.")
    }
    put(page, ".SH SEE ALSO")
    put(page, ".BR " page_name(group_file[g]) " (7),")
    put(page, ".BR phonograph (7)")
    close(page)
    for (i = 2; i <= count; i++)
        print names[1], names[i] > (out "/links")
}
function write_header(of,    page, names, count, i, g)
{
    count = split(file_calls[of], names, " ")
    if (!count || page_name(of) == "phonograph")
        return
    page = out "/man7/" page_name(of) ".7"
    write_head(page, page_name(of), 7)
    put(page, ".SH NAME\n" page_name(of) " \\- " escape(summary(header_text[of])))
    put(page, ".SH SYNOPSIS\n.nf\n#include <" of ">\n.fi\n.SH DESCRIPTION")
    write_text(page, header_text[of])
    put(page, ".SH CALLS")
    for (i = 1; i <= count; i++) {
        g = call_group[names[i]]
        put(page, ".TP\n.BR " names[i] " (3)")
        put(page, escape(summary(call_note[names[i]] ? call_note[names[i]] : group_comment[g], group_title[g] ? group_title[g] : of)))
    }
    put(page, ".SH SEE ALSO\n.BR phonograph (7)")
    close(page)
}
function write_overview(    page, i)
{
    page = out "/man7/phonograph.7"
    write_head(page, "phonograph", 7)
    put(page, ".SH NAME\nphonograph \\- records GPU work once and replays it with one launch")
    put(page, ".SH SYNOPSIS\n.nf\n#include <phonograph/phonograph.h>\n#include <phonograph/nn.h>\n")
    put(page, "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs phonograph)\n.fi\n.SH DESCRIPTION")
    put(page, "A C library for CUDA graphs: capture, replay, memory pools, graphed callables.")
    put(page, ".I phonograph/nn.h\nadds tensors, gradients, modules and optimizers (pkg\\-config phonograph_nn).")
    put(page, "Each header has a page; it lists its calls.\n.SH HEADERS")
    for (i = 1; i <= file_count; i++)
        if (file_calls[files[i]] && page_name(files[i]) != "phonograph") {
            put(page, ".TP\n.BR " page_name(files[i]) " (7)")
            put(page, escape(summary(header_text[files[i]])))
        }
    put(page, ".SH SEE ALSO\n.BR phonograph (1)")
    close(page)
}
END {
    for (i = 1; i <= group_count; i++)
        write_calls(i)
    for (i = 1; i <= file_count; i++)
        write_header(files[i])
    write_overview()
    print call_count " calls, " group_count " pages"
}
