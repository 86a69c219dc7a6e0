package capability

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Kind is the kind of a caveat: the property that it restricts.
type Kind string

// The kinds of caveats. A token with a caveat of another kind allows nothing, so a
// node never grants more than the minter meant.
const (
	KindOp     Kind = "op"     // op in get,put
	KindObject Kind = "obj"    // obj ^= b3:12ab, a prefix of the printed address
	KindName   Kind = "name"   // name ^= docs.
	KindMethod Kind = "method" // method in GET,PUT
	KindBytes  Kind = "bytes"  // bytes <= 10MiB, stored by one request; not for fetch, whose size is unknown
	KindRate   Kind = "rate"   // rate <= 20, requests a second
	KindExpiry Kind = "exp"    // exp < 2026-01-02T15:04:05Z
	KindNode   Kind = "aud"    // aud = 12D3KooW…, the only node that accepts the token
	KindLabel  Kind = "label"  // label = photos, the label of pins that the bearer makes and removes
)

// relations is the relation in the text of each kind.
var relations = map[Kind]string{
	KindOp: "in", KindObject: "^=", KindName: "^=", KindMethod: "in",
	KindBytes: "<=", KindRate: "<=", KindExpiry: "<", KindNode: "=", KindLabel: "=",
}

// The bounds of a caveat.
const (
	maxCaveat = 1 << 10 // bytes of the text
	maxWords  = 32      // words of a list
	maxWord   = 32      // bytes of a word
	maxName   = 255     // bytes of a prefix of a name
	maxPeer   = 128     // bytes of a peer id
	maxLabel  = 255     // bytes of a pin's label, as in the store
	maxRate   = 1 << 20 // requests a second
)

// Caveat is one condition of a capability. The zero Caveat is no condition. Equal
// caveats are the same condition.
type Caveat struct {
	kind Kind
	text string // the words of a list, a prefix, a peer id, a label
	n    int64  // bytes, requests a second, seconds since 1970
}

// String returns the text of c, which [ParseCaveat] reads.
func (c Caveat) String() string {
	if c.kind == "" {
		return ""
	}
	value := c.text
	switch c.kind {
	case KindBytes:
		value = limits.Bytes(c.n).String()
	case KindRate:
		value = strconv.FormatInt(c.n, 10)
	case KindExpiry:
		value = c.time().Format(time.RFC3339)
	}
	return string(c.kind) + " " + relations[c.kind] + " " + value
}

func (c Caveat) time() time.Time { return time.Unix(c.n, 0).UTC() }

// ParseCaveat parses the text of a caveat: kind, relation and value, separated by
// one space each. Anything else is bad_request.
func ParseCaveat(s string) (Caveat, error) {
	c, err := parseCaveat(s)
	if err != nil {
		return Caveat{}, status.Errorf(status.BadRequest, "%q is not a caveat: %w", clip(s), err)
	}
	return c, nil
}

func parseCaveat(s string) (Caveat, error) {
	if len(s) > maxCaveat {
		return Caveat{}, fmt.Errorf("it has %d bytes, at most %d", len(s), maxCaveat)
	}
	key, rest, _ := strings.Cut(s, " ")
	relation, value, _ := strings.Cut(rest, " ")
	c := Caveat{kind: Kind(key)}
	expected, ok := relations[c.kind]
	if !ok {
		return c, fmt.Errorf("there is no kind %q; op, obj, name, method, bytes, rate, exp, aud and label are known",
			clip(key))
	}
	if relation != expected {
		return c, fmt.Errorf("write it as %q", key+" "+expected+" …")
	}
	var err error
	switch c.kind {
	case KindOp:
		c.text, err = parseWords(value, isLower)
	case KindMethod:
		c.text, err = parseWords(value, isLetter)
	case KindObject:
		c.text, err = parsePrefix(value)
	case KindName:
		c.text, err = parseName(value)
	case KindNode:
		c.text, err = parsePeer(value)
	case KindLabel:
		c.text, err = parseLabel(value)
	case KindBytes:
		c.n, err = parseSize(value)
	case KindRate:
		c.n, err = parseRate(value)
	case KindExpiry:
		c.n, err = parseTime(value)
	}
	return c, err
}

func isLower(r rune) bool  { return 'a' <= r && r <= 'z' }
func isLetter(r rune) bool { return isLower(r) || 'A' <= r && r <= 'Z' }
func isDigit(r rune) bool  { return '0' <= r && r <= '9' }

// parseWords checks a list of words that are separated by single commas. A word
// begins with a letter and has letters, digits, "-", "_" and ".".
func parseWords(s string, letter func(rune) bool) (string, error) {
	other := func(r rune) bool { return !letter(r) && !isDigit(r) && r != '-' && r != '_' && r != '.' }
	n := 0
	for word := range strings.SplitSeq(s, ",") {
		if n++; n > maxWords {
			return "", fmt.Errorf("it lists more than %d words", maxWords)
		}
		if word == "" || len(word) > maxWord || !letter(rune(word[0])) || strings.ContainsFunc(word, other) {
			return "", fmt.Errorf("%q is not a word for that list (words of ≤ %d letters, separated by commas alone)",
				clip(word), maxWord)
		}
	}
	return s, nil
}

// addressLen is the length of a printed address in bytes.
const addressLen = len("b3:") + 2*len(b3.Root{})

// parsePrefix checks a prefix of a printed address.
func parsePrefix(s string) (string, error) {
	notHex := func(r rune) bool { return !isDigit(r) && (r < 'a' || r > 'f') }
	digits, ok := strings.CutPrefix(s, "b3:")
	if !ok || len(s) > addressLen || strings.ContainsFunc(digits, notHex) {
		return "", fmt.Errorf("%q is not the beginning of an address (b3: and up to 64 lowercase hex digits)", clip(s))
	}
	return s, nil
}

func parseName(s string) (string, error) {
	invalid := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if s == "" || len(s) > maxName || !utf8.ValidString(s) || strings.ContainsFunc(s, invalid) {
		return "", fmt.Errorf("%q is not the beginning of a name (1 to %d bytes of UTF-8 without spaces)",
			clip(s), maxName)
	}
	return s, nil
}

func parsePeer(s string) (string, error) {
	if s == "" || len(s) > maxPeer || strings.ContainsFunc(s,
		func(r rune) bool { return !isLetter(r) && !isDigit(r) }) {
		return "", fmt.Errorf("%q is not a peer id; `allium id` prints one", clip(s))
	}
	return s, nil
}

func parseLabel(s string) (string, error) {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if s == "" || len(s) > maxLabel || !utf8.ValidString(s) || strings.TrimSpace(s) != s ||
		strings.ContainsFunc(s, unprintable) {
		return "", fmt.Errorf("%q is not a label (1 to %d bytes of printable UTF-8 without spaces around it)",
			clip(s), maxLabel)
	}
	return s, nil
}

func parseSize(s string) (int64, error) {
	n, err := limits.ParseBytes(s)
	// ParseBytes also accepts exponents and spaces; a caveat does not.
	other := func(r rune) bool { return !isDigit(r) && r != '.' && !strings.ContainsRune("kKMGTiB", r) }
	if err != nil || strings.ContainsFunc(s, other) {
		return 0, fmt.Errorf("%q is not a size; write 512, 64KiB or 1.5GiB", clip(s))
	}
	return int64(n), nil
}

func parseRate(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n < 1 || n > maxRate {
		return 0, fmt.Errorf("%q is not a rate; write a number of requests a second, 1 to %d", clip(s), maxRate)
	}
	return int64(n), nil
}

func parseTime(s string) (int64, error) {
	t, err := time.Parse(time.RFC3339, s)
	if y := t.UTC().Year(); err != nil || t.Nanosecond() != 0 || y < 1970 || y > 9999 {
		return 0, fmt.Errorf("%q is not a time; write 2026-01-02T15:04:05Z", clip(s))
	}
	return t.Unix(), nil
}

// clip cuts s after 80 bytes, for errors.
func clip(s string) string {
	const longest = 80
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
