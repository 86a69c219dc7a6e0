// Package printable writes texts for people.
//
// It escapes names that other users chose, so that a terminal can show
// them. It escapes characters that move the cursor, change the direction of writing or
// are invisible. So a name never looks like another name, or like output of the program.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns name with every invisible character as a Go escape, such as \n, \x1b or
// \u202e, and every backslash as two. Bytes that are not UTF-8 become escapes such as
// \xff. Different names have different results.
func Name(name string) string { return escape(name, true) }

// Text is Name for a text that may contain quoted names: it does not escape line
// breaks, tabs and backslashes.
func Text(text string) string { return escape(text, false) }

func escape(s string, name bool) string {
	if plain(s, name) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case shown(r, name):
			b.WriteString(s[:n])
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// plain reports whether nothing in s is escaped.
func plain(s string, name bool) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		}
		if !shown(r, name) {
			return false
		}
	}
	return true
}

// shown reports whether r is not escaped.
func shown(r rune, name bool) bool {
	switch r {
	case '\n', '\t', '\\':
		return !name
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u3164', '\uffa0': // letters and marks without a shape
		return false
	}
	return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r)
}
