# Sorts a text, dumps it and sorts the dump, finds the lines with a word, keeps and counts them. The files are called by
# this process, so that several scripts do not meet; with the word keep they stay.
name=${1:+kept}
name=${name:-$$}
sort <text >"$name.sorted"
od "$name.sorted" | sort -n -k 1 >"$name.dumped"
grep the "$name.sorted" | tee "$name.found" | wc >"$name.count"
[ "$1" = keep ] || rm "$name.sorted" "$name.dumped" "$name.found" "$name.count"
