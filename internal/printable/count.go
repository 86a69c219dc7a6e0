package printable

import (
	"fmt"
	"strings"
)

// Count returns n and what, in the plural unless n is 1: "1 object", "2 objects", "2 entries",
// "2 searches".
func Count[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		what = stem + "ie"
	}
	if strings.HasSuffix(what, "ch") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
