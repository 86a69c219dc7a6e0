package term

import (
	"unicode"

	"golang.org/x/text/width"
)

// Cells returns how many columns of a terminal text takes.
func Cells(text string) (n int) {
	for _, r := range text {
		n += cellsOf(r)
	}
	return n
}

func cellsOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut returns text, shortened to so many columns, with … at its end if it was longer.
func Cut(text string, columns int) string {
	if Cells(text) <= columns {
		return text
	}
	used := 0
	for i, r := range text {
		if used += cellsOf(r); used > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}
