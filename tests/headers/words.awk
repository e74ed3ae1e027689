# SPDX-License-Identifier: MIT
# words.awk: reads the table words.txt and then files; prints FILE:LINE: for each word that the table replaced, with the word to use, and exits
# with 1. -v table=FILE, -v files=FILE: a list of files, which is the whole tree. An identifier is read as its words: ph__old_word has "old" and "word".
function trim(text)
{
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    return text
}

# Rows: WORDS | KINDS | FOLDERS | INSTEAD. Under a row: "except FILE WORD | REASON".
function read_table(    line, part, words, count, i)
{
    while ((getline line < table) > 0) {
        if (line ~ /^#/ || line ~ /^[ \t]*$/)
            continue
        count = split(line, part, "|")
        if (line ~ /^[ \t]*except /) {
            split(trim(part[1]), words, " ")
            if (count != 2 || trim(part[2]) == "" || words[3] == "")
                fail_table(line)
            excepted[words[2] " " words[3]] = 1
            continue
        }
        if (line ~ /^allow /) {
            split(trim(part[1]), words, " ")
            allowed[words[2] " " words[3]] = 1
            continue
        }
        if (count != 4 || trim(part[2]) !~ /^(names|texts|all|names texts)$/)
            fail_table(line)
        rows++
        kind[rows] = trim(part[2])
        folders[rows] = " " trim(part[3]) " "
        instead[rows] = trim(part[4])
        count = split(trim(part[1]), words, " ")
        for (i = 1; i <= count; i++)
            rows_of[words[i]] = rows_of[words[i]] " " rows
    }
}
function fail_table(line)
{
    print table ": not read: " line
    failed = 1
    exit 1
}

# The text without comments, strings and characters; `texts` gets the strings.
function code_of(line,    out, at)
{
    gsub(/\\./, " ", line)
    out = texts = ""
    while (line != "") {
        if (commented) {
            at = index(line, "*/")
            if (!at)
                return out
            commented = 0
            line = substr(line, at + 2)
        } else if (match(line, /"[^"]*"|'[^']*'|\/\*|\/\//)) {
            out = out substr(line, 1, RSTART - 1) " "
            if (substr(line, RSTART, 1) == "\"")
                texts = texts " " substr(line, RSTART, RLENGTH)
            if (substr(line, RSTART, 2) == "//")
                return out
            commented = substr(line, RSTART, 2) == "/*"
            line = substr(line, RSTART + RLENGTH)
        } else {
            return out line
        }
    }
    return out
}

# Whether the row is about the file: it lies in one of the row's folders, or is one of them.
function is_about(row,    part, count, i)
{
    count = split(folders[row], part, " ")
    for (i = 1; i <= count; i++)
        if (FILENAME == part[i] || index(FILENAME, part[i] "/") == 1)
            return 1
    return 0
}

function check_words(text, wanted,    words, count, i, list, rows_here, r, key)
{
    count = split(tolower(text), words, /[^a-z]+/)
    for (i = 1; i <= count; i++)
        if (words[i] in rows_of) {
            if ((words[i - 1] " " words[i]) in allowed || (words[i] " " words[i + 1]) in allowed)
                continue
            rows_here = split(rows_of[words[i]], list, " ")
            for (r = 1; r <= rows_here; r++)
                if (index(kind[list[r]], wanted) && about(list[r])) {
                    key = FILENAME " " words[i]
                    if (key in excepted) {
                        used[key] = 1
                        continue
                    }
                    print FILENAME ":" FNR ": \"" words[i] "\": the word is " instead[list[r]]
                    failed = 1
                }
        }
}
function about(row)
{
    if (!((FILENAME, row) in known))
        known[FILENAME, row] = is_about(row)
    return known[FILENAME, row]
}

BEGIN {
    read_table()
    while (files != "" && (getline ARGV[ARGC] < files) > 0)
        ARGC++
    delete ARGV[ARGC]
}
FNR == 1 { commented = 0; read++; is_c = FILENAME ~ /\.(c|h|cu|def|cpp|hpp)$/ }
{
    check_words($0, "all")
    if (is_c) {
        check_words(code_of($0), "names")
        check_words(texts, "texts")
    }
}
END {
    if (rows == 0) {
        print table ": no rows"
        failed = 1
    }
    if (files != "")
        for (key in excepted)
            if (!(key in used)) {
                print table ": not needed: except " key
                failed = 1
            }
    if (!failed)
        print rows " rows hold in " read " files"
    exit failed + 0
}
