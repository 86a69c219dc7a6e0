// Package natural orders names as people do: file2 before file10, and B beside b.
package natural

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Compare returns a number below, above or equal to zero if a is before, after or the same as b. It compares runs of
// ASCII digits by their value and letters without their case. Names that are then the same are compared by their
// bytes, so that only equal names are the same. It takes time in proportion to the shorter name and allocates nothing.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if isDigit(x[0]) && isDigit(y[0]) {
			var m, n string
			m, x = digits(x)
			n, y = digits(y)
			if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
				return c
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(x)
		s, m := utf8.DecodeRuneInString(y)
		if r != s {
			if c := cmp.Compare(fold(r), fold(s)); c != 0 {
				return c
			}
		}
		x, y = x[n:], y[m:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits splits s behind the digits that it begins with, and leaves out their leading zeros.
func digits(s string) (value, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return strings.TrimLeft(s[:n], "0"), s[n:]
}

// fold returns the lower case of r.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(r)
}
