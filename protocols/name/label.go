package name

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"allium/protocols/status"
)

// Label is a label in normal form: UTF-8 of 1 to MaxLabel bytes without dots, in Unicode
// normal form C and with folded case, of one script. Folded case is lower case, but for
// Cherokee, which Unicode folds to upper case. Labels are comparable. The zero Label is no
// label.
type Label struct{ s string }

// sharpS maps the capital sharp s to the small one, as UTS #46 does since Unicode 15.1. Older data map it
// to "ss", so that the upper and the lower case of one word were two labels.
var sharpS = strings.NewReplacer("\u1e9e", "ß")

// FoldSharpS returns s with each U+1E9E as ß. It comes before the mapping of UTS #46.
func FoldSharpS(s string) string { return sharpS.Replace(s) }

// profile normalises labels as UTS #46 says, non-transitional, with STD3 rules and the checks
// of hyphens, joiners and writing direction.
var profile = idna.New(idna.MapForLookup(), idna.BidiRule())

// ParseLabel returns the normal form of s: mapped by [FoldSharpS] and then as UTS #46 does for
// look-ups, which folds case, width and composition. It accepts the Punycode form (xn--…). The result has letters,
// marks, decimal digits and hyphens; symbols such as emoji are refused, because they belong
// to every script and many look alike. Its letters are of one script, where Japanese (Han,
// Hiragana, Katakana), Korean (Han, Hangul) and Bopomofo with Han count as one, as in UTS #39.
// Parsing a label's own text returns the same label. The error is a *[LabelError].
func ParseLabel(s string) (Label, error) {
	if plain(s) {
		return Label{s}, nil
	}
	return parseLabel(s)
}

// plain reports whether s is a label in normal form of ASCII characters, without hyphens at its
// ends or as its third character.
func plain(s string) bool {
	if s == "" || len(s) > MaxLabel || s[0] == '-' || s[len(s)-1] == '-' || len(s) > 2 && s[2] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// parseLabel is [ParseLabel] for any text.
func parseLabel(s string) (Label, error) {
	switch {
	case s == "":
		return Label{}, labelError(s, Empty, "")
	case len(s) > maxLabelInput:
		return Label{}, labelError(s, TooLong, "")
	case !utf8.ValidString(s):
		return Label{}, labelError(s, BadChar, "bytes that are not UTF-8")
	}
	normal, err := profile.ToUnicode(FoldSharpS(s))
	switch {
	case err != nil:
		if bad, ok := strings.CutPrefix(err.Error(), "idna: disallowed rune "); ok {
			return Label{}, labelError(s, BadChar, bad)
		}
		return Label{}, labelError(s, BadForm, "")
	case normal == "":
		return Label{}, labelError(s, Empty, "")
	case strings.Contains(normal, "."):
		return Label{}, labelError(s, HasDot, "")
	case len(normal) > MaxLabel:
		return Label{}, labelError(s, TooLong, "")
	}
	for _, r := range normal {
		if !inLabel(r) {
			return Label{}, labelError(s, BadChar, fmt.Sprintf("%U", r))
		}
	}
	if mix := mixedScripts(normal); mix != "" {
		return Label{}, labelError(s, Mixed, mix)
	}
	return Label{normal}, nil
}

// The characters of labels that are neither letters, marks nor decimal digits.
const (
	zwnj      = '\u200c' // joiners: UTS #46 accepts them between the letters that they change
	zwj       = '\u200d'
	hanNumber = '〇' // the digit zero of Han numbers
)

// inLabel reports whether a character that UTS #46 accepts is one of a label.
func inLabel(r rune) bool {
	return unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd) ||
		r == '-' || r == zwnj || r == zwj || r == hanNumber
}

// String returns the label, empty for the zero Label.
func (l Label) String() string { return l.s }

// IsZero reports whether l is the zero Label.
func (l Label) IsZero() bool { return l.s == "" }

// MarshalText returns the label, so that JSON shows it.
func (l Label) MarshalText() ([]byte, error) { return []byte(l.s), nil }

// UnmarshalText parses as [ParseLabel] does. An error leaves l as it was.
func (l *Label) UnmarshalText(text []byte) error {
	parsed, err := ParseLabel(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// LabelProblem says what is wrong with the text of a label.
type LabelProblem string

// The problems of a label, in the order in which [ParseLabel] looks for them.
const (
	Empty   LabelProblem = "empty"         // nothing is left of it
	TooLong LabelProblem = "too_long"      // more than MaxLabel bytes
	BadChar LabelProblem = "bad_character" // a character that no label has
	BadForm LabelProblem = "bad_form"      // hyphens, joiners, marks or writing directions where UTS #46 forbids them
	HasDot  LabelProblem = "dot"           // several labels
	Mixed   LabelProblem = "mixed_scripts" // letters of several scripts
)

// LabelError is the error of [ParseLabel]. Its outcome is bad_address.
type LabelError struct {
	Text    string // what was parsed, cut after 80 bytes
	Problem LabelProblem
	Detail  string // the character of BadChar, or the scripts of Mixed
}

// Error describes the problem, and after a semicolon what labels have, in one sentence without a
// trailing period.
func (e *LabelError) Error() string {
	return fmt.Sprintf("%q is not a label: %s; a label has 1 to %d bytes: letters of one script, digits and hyphens",
		e.Text, e.Reason(), MaxLabel)
}

// Reason describes the problem alone: "it is empty".
func (e *LabelError) Reason() string {
	switch e.Problem {
	case Empty:
		return "it is empty"
	case TooLong:
		return fmt.Sprintf("it has more than %d bytes", MaxLabel)
	case BadChar:
		return "it has " + e.Detail
	case HasDot:
		return "it has a dot"
	case Mixed:
		return "it mixes the scripts " + e.Detail
	case BadForm:
	}
	return "a hyphen or a mark begins it, a hyphen ends it, or its characters may not follow each other"
}

// Status returns the outcome bad_address.
func (e *LabelError) Status() status.Outcome { return status.BadAddress }

func labelError(s string, p LabelProblem, detail string) error {
	return &LabelError{Text: clip(s), Problem: p, Detail: detail}
}

// clip returns at most the first 80 bytes of s, for an error.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 80)], "\ufffd") }
