package exchange

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// Clip shortens a part of a request to 80 bytes for an error, and replaces each unprintable
// character, because a terminal or an editor that shows the error would obey it.
func Clip(s string) string {
	const limit = 80
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// unprintable reports whether r is a control character or another invisible one.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// EscapeName returns a file name for a page. It writes unprintable characters as numbers:
// control characters, characters of no width, and characters that change the direction of
// writing. With these, two names could look the same, or a name could fake its extension.
func EscapeName(name string) string {
	if !strings.ContainsFunc(name, unprintable) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if unprintable(r) {
			fmt.Fprintf(&b, "\\u{%04X}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// EscapeText returns a line of a text for a page. It writes the characters as numbers that change the direction of
// writing, and control characters but for tabs, so that a text reads in the order in which programs read it.
func EscapeText(line string) string {
	if !strings.ContainsFunc(line, misleads) {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		if misleads(r) {
			fmt.Fprintf(&b, "\\u{%04X}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// misleads reports whether r is a control character, or one that changes the direction of writing.
func misleads(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// PercentEncode encodes all bytes of a name but letters, digits, "-", ".", "_" and "~" (RFC 3986 §2.3).
func PercentEncode(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }
