# SPDX-License-Identifier: BSL-1.0
# How Doxygen reads docs/algorithms.md: the algorithm that begins a row, and the collectives in the head, are links.
/^\| \[`[a-z_]+`/ { $2 = link($2) }
/^\| \|/ { for (i = 3; i < NF; ++i) if ($i ~ /^`/) $i = link($i) }
{ print }

function link(code, name) {
    name = code
    sub(/^\[?`/, "", name)
    sub(/`.*/, "", name)
    return "@ref allfold::" name " \"" name "\""
}
