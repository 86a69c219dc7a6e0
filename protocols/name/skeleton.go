package name

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"allium/protocols/status"
)

// confusablesText is the table: a line for each character that can occur in a decomposed label
// and looks like others, in the order of the characters. Numbers are hexadecimal; the first is
// the character, the rest its replacement. tools/confusables writes it.
//
//go:embed confusables.txt
var confusablesText string

// confusables is the table, parsed at its first use.
var confusables = sync.OnceValue(func() map[rune]string {
	table := make(map[rune]string, 2000)
	for line := range strings.Lines(confusablesText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var source rune
		var target strings.Builder
		for i, field := range strings.Fields(line) {
			r, _ := strconv.ParseUint(field, 16, 32) // a test parses every line
			if i == 0 {
				source = rune(r)
			} else {
				target.WriteRune(rune(r))
			}
		}
		table[source] = target.String()
	}
	return table
})

// Skeleton returns the UTS #39 skeleton of l: labels that look alike have the same one. It is
// for comparisons only; it is no label. Joiners are dropped, as UTS #39 does since version 15.1.
func Skeleton(l Label) string {
	table := confusables()
	var b strings.Builder
	for _, r := range norm.NFD.String(l.s) {
		target, ok := table[r]
		switch {
		case ok:
			b.WriteString(target)
		case r != zwnj && r != zwj:
			b.WriteRune(r)
		}
	}
	return norm.NFD.String(b.String())
}

// Spellings is a set of labels that all look different, such as the labels of a zone. The zero value is empty. It is
// not safe for concurrent use.
type Spellings struct{ bySkeleton map[string]Label }

// Like returns the label of the set that looks like l, or is l.
func (s *Spellings) Like(l Label) (Label, bool) {
	old, ok := s.bySkeleton[Skeleton(l)]
	return old, ok
}

// Add adds l. Adding a label twice changes nothing. The error is a *[ConfusableError] if
// another label of the set looks like l.
func (s *Spellings) Add(l Label) error {
	skeleton := Skeleton(l)
	if old, ok := s.bySkeleton[skeleton]; ok && old != l {
		return &ConfusableError{Label: l, With: old}
	}
	if s.bySkeleton == nil {
		s.bySkeleton = map[string]Label{}
	}
	s.bySkeleton[skeleton] = l
	return nil
}

// ConfusableError reports a label that looks like another. Its outcome is conflict.
type ConfusableError struct {
	Label Label // the new one
	With  Label // the one that is there
}

// Error names both labels.
func (e *ConfusableError) Error() string {
	return fmt.Sprintf("%q looks like %q, which is there already; choose another", e.Label.s, e.With.s)
}

// Status returns the outcome conflict.
func (e *ConfusableError) Status() status.Outcome { return status.Conflict }
