# SPDX-License-Identifier: BSL-1.0
# The input filter through which Doxygen reads a header. It keeps the number of lines, so that line numbers stay right.
# - The contents of a namespace belong to the group of the header's folder.
# - The comment of its file documents an algorithm; its schedules are documented as those of the collectives they are named after.
# - The type of a collective is a detail and is left out.
# - The example of a collective is shown as examples.awk has cut it out of the program.
BEGIN {
    floor = ARGV[1]
    sub(/.*include\/allfold\//, "", floor)
    file = floor
    sub(/.*\//, "", file)
    algorithm = substr(file, 1, length(file) - 4)
    if (!sub(/\/.*/, "", floor)) floor = "basics"
}

/^namespace allfold[a-z:]* \{/ && !/detail/ { $0 = $0 " /** @addtogroup " floor " */ /** @{ */"; open = 1 }
/^\}  \/\/ namespace allfold/ && !/detail/ && open { $0 = "/** @} */ " $0; open = 0 }

floor == "schedule" && /^struct [a-z_]+ \{/ && index($2, algorithm) == 1 { $0 = "/** @copydetails " file " */ " $0 }
floor == "schedule" && /^    class [a-z_]+ : public schedule_of</ && previous !~ /\/\/\// {
    $0 = "/** The schedule of @ref allfold::" $2 " \"" $2 "\". */ " $0
}
(floor == "collective" || floor == "message") && /^inline constexpr detail::/ { $0 = "inline constexpr auto " $4; sub(/\{\}/, "") }
/^\/\/\/ - Example: / { $0 = "/// - Example, of " $4 ": @include call_of_" algorithm ".cpp" }

{ print; previous = $0 }
