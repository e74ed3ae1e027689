# SPDX-License-Identifier: MIT
# rooms.awk: the rules of src/'s folders, for rooms.sh. Reads three kinds of lines:
#   M ROOM USED...        what a folder's README says it may use
#   I FILE HEADER         an include
#   D OBJECT-FILE SYMBOL  a definition; U OBJECT-FILE SYMBOL: a use (files as src/ names them)
# Prints what is wrong, and ends with 1 then.
function room_of(file) { sub(/\/[^\/]*$/, "", file); return file }

function say(text) { print text; failed = 1 }

function may(user, used) { return user == used || ((user, used) in allowed) }

# Tarjan, "Depth-first search and linear graph algorithms" (1972): the circles of next_of, each one's size and members.
function visit(node, limit, kind,    i, count, list, other, size, members)
{
    order[node] = low[node] = ++counter
    stack[++depth] = node
    on_stack[node] = 1
    count = split(next_of[node], list, " ")
    for (i = 1; i <= count; i++) {
        other = list[i]
        if (!(other in order)) {
            visit(other, limit, kind)
            if (low[other] < low[node])
                low[node] = low[other]
        } else if (on_stack[other] && order[other] < low[node]) {
            low[node] = order[other]
        }
    }
    if (low[node] != order[node])
        return
    size = 0
    do {
        other = stack[depth--]
        on_stack[other] = 0
        members[++size] = other
        circle[other] = node
    } while (other != node)
    if (size > limit)
        tell_circle(members, size, kind)
}

function tell_circle(members, size, kind,    i, k)
{
    say("a circle of " size " " kind ":")
    for (i = 1; i <= size; i++)
        for (k = 1; k <= size; k++)
            if ((members[i], members[k]) in why)
                say("    " why[members[i], members[k]])
}

function find_circles(limit, kind,    node)
{
    split("", order); split("", low); split("", on_stack); split("", circle)
    counter = depth = 0
    for (node in next_of)
        if (!(node in order))
            visit(node, limit, kind)
}

function add_edge(from, to, text)
{
    if ((from, to) in why)
        return
    why[from, to] = text
    next_of[from] = next_of[from] " " to
}

$1 == "M" { rooms[$2] = 1; for (i = 3; i <= NF; i++) { allowed[$2, $i] = 1; used_by[$2] = used_by[$2] " " $i } }
$1 == "I" { includes[++include_count] = $2 " " $3 }
$1 == "D" { definer[$3] = $2 }
$1 == "U" { uses[++use_count] = $2 " " $3 }

END {
    for (i = 1; i <= include_count; i++) {
        split(includes[i], pair, " ")
        user = room_of(pair[1]); used = room_of(pair[2])
        if (!may(user, used))
            say("src/" pair[1] " includes \"" pair[2] "\", and src/" user "/README.md does not say that it may use " used)
    }
    for (room in rooms)
        for (count = split(used_by[room], list, " "); count > 0; count--) {
            if (!(list[count] in rooms))
                say("src/" room "/README.md: may use " list[count] ", which is no folder with a README")
            add_edge(room, list[count], room " may use " list[count])
        }
    find_circles(1, "folders")
    split("", next_of); split("", why)
    for (i = 1; i <= use_count; i++) {
        split(uses[i], pair, " ")
        if (!(pair[2] in definer) || definer[pair[2]] == pair[1])
            continue
        user = room_of(pair[1]); used = room_of(definer[pair[2]])
        text = pair[1] " uses " pair[2] " of " definer[pair[2]]
        if (!may(user, used))
            say("src/" text ", and src/" user "/README.md does not say that it may use " used)
        else if (user == used)
            add_edge(pair[1], definer[pair[2]], text)
    }
    find_circles(4, "files in one folder")
    exit failed
}
