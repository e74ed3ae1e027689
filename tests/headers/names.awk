# SPDX-License-Identifier: MIT
# names.awk: the names that C files define, for names.sh. A definition begins in the first column, as clang-format leaves it; a struct may
# stand in another one. Ends with 1 where two files define one name.
function define(name)
{
    if (name !~ /^ph_/)
        return
    if (!(name in place)) {
        place[name] = FILENAME ":" FNR
        file[name] = FILENAME
    } else if (file[name] != FILENAME && index(still, " " name " ") == 0) {
        print name " is defined in src/" place[name] " and in src/" FILENAME ":" FNR
        failed = 1
    }
}

# The text without comments, strings and characters.
function code_of(line,    out, at)
{
    gsub(/\\./, "", line)
    gsub(/"[^"]*"/, "0", line)
    gsub(/'[^']*'/, "0", line)
    out = ""
    while (line != "") {
        if (commented) {
            at = index(line, "*/")
            if (!at)
                return out
            commented = 0
            line = substr(line, at + 2)
        } else {
            at = index(line, "/*")
            if (!at)
                return out line
            commented = 1
            out = out substr(line, 1, at - 1)
            line = substr(line, at + 2)
        }
    }
    return out
}

FNR == 1 { commented = 0; directive = 0; inside = 0; text = "" }

{
    continued = directive && $0 ~ /\\$/
    skipped = directive || (!commented && /^[ \t]*#/)
    directive = continued || (skipped && /\\$/)
    if (skipped)
        next
    line = code_of($0)
    if (match(line, /(struct|union|enum)[ \t]+[A-Za-z_][A-Za-z0-9_]*[ \t]*\{/)) {
        tag = substr(line, RSTART, RLENGTH)
        sub(/[ \t]*\{$/, "", tag)
        sub(/^[a-z]+[ \t]+/, "", tag)
        define(tag)
    }
    # The end of what began in the first column: "} name;" names a type.
    if (line ~ /^\}/) {
        if (match(line, /^\}[ \t]*[A-Za-z_][A-Za-z0-9_]*;/) && is_type) {
            sub(/^\}[ \t]*/, "", line)
            sub(/;.*$/, "", line)
            define(line)
        }
        inside = 0
        text = ""
        next
    }
    if (inside || line ~ /^[ \t]*$/)
        next
    text = text " " line
    if (line ~ /\{[ \t]*$/) {
        inside = 1
        is_type = text ~ /^ *typedef/
        # A function: its name stands before the first parenthesis, and nothing is assigned.
        if (text ~ /\(/ && text !~ /=/ && text !~ /^ *(typedef|struct|union|enum)[^(]*\{/) {
            sub(/[ \t]*\(.*$/, "", text)
            sub(/^.*[^A-Za-z0-9_]/, "", text)
            define(text)
        }
        text = ""
    } else if (line ~ /[;}][ \t]*$/) {
        # "typedef ... name;" of something else than a struct that is declared by its own name.
        if (text ~ /^ *typedef/ && text !~ /^ *typedef (struct|union|enum) [A-Za-z0-9_]+ [A-Za-z0-9_]+;/ && text !~ /\{/) {
            if (match(text, /\(\*[A-Za-z_][A-Za-z0-9_]*\)/))
                define(substr(text, RSTART + 2, RLENGTH - 3))
            else {
                sub(/;[ \t]*$/, "", text)
                sub(/^.*[^A-Za-z0-9_]/, "", text)
                define(text)
            }
        }
        text = ""
    }
}

END { exit failed }
