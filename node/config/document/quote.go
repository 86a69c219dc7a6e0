package document

import (
	"fmt"
	"strings"

	"allium/internal/lazyregexp"
)

// Quote returns s as a basic string of TOML. Bytes that are not UTF-8 become U+FFFD.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var bareKey = lazyregexp.New(`\A[A-Za-z0-9_-]+\z`)

// keyText returns the parts of a key in the syntax of TOML.
func keyText(parts []string) string {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		if quoted[i] = p; !bareKey().MatchString(p) {
			quoted[i] = Quote(p)
		}
	}
	return strings.Join(quoted, ".")
}
