# SPDX-License-Identifier: BSL-1.0
# Extracts what the reference shows of a program that calls a collective: the paragraph with the first call, as call_of_NAME.cpp.
#     awk -v folder=FOLDER -f examples.awk HEADER...
# A header names its program, one of examples/*.cpp: the tests build and run all of them.
FNR == 1 {
    name = FILENAME
    gsub(/.*\/|\.hpp$/, "", name)
    has_example = 0
}
/^\/\/\/ - Example: / {
    has_example = 1
    if ($4 !~ /^examples\/[a-z_]+\.cpp$/ || !show($4, "allfold::" name "(")) fail($4 " is no test that calls " name)
}
/^inline constexpr detail::/ && !has_example { fail(name " has no example") }
END { exit failed }

function show(program, call, line, margin, paragraph, found) {
    while (!found && (getline line < program) > 0) {
        if (line == "") paragraph = ""
        else {
            if (paragraph == "") margin = match(line, /[^ ]/)
            paragraph = paragraph substr(line, margin) "\n"
        }
        if (index(line, call)) {
            while ((getline line < program) > 0 && line != "") paragraph = paragraph substr(line, margin) "\n"
            printf "%s", paragraph > (folder "/call_of_" name ".cpp")
            found = 1
        }
    }
    close(program)
    return found
}

function fail(why) {
    print FILENAME ": " why > "/dev/stderr"
    failed = 1
}
