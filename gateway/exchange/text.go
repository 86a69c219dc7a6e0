package exchange

import (
	"fmt"
	"strings"
	"unicode"
)

// Clip bounds what an error repeats of a request, and leaves nothing in it that
// a terminal or an editor would obey: the error is shown there.
func Clip(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if obeyed(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// obeyed reports whether r is a control character, or another one that is not
// simply seen.
func obeyed(r rune) bool { return !unicode.IsPrint(r) }

// Shown is a name as a page shows it: what is not simply seen, such as control
// characters, those that turn the direction of writing and those of no width,
// is written as its number. So no two names look alike for one of them, and none
// looks like another kind of file.
func Shown(name string) string {
	if !strings.ContainsFunc(name, obeyed) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if obeyed(r) {
			fmt.Fprintf(&b, "\\u{%04X}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
