package b3

import (
	"fmt"
	"strings"

	"allium/protocols/status"
)

// AddressProblem says what is wrong with the text of an address.
type AddressProblem uint8

// The problems of an address, in the order in which [Parse] looks for them.
const (
	NoPrefix  AddressProblem = iota // the text does not start with "b3:"
	NotHex                          // a character is not a hex digit
	TooShort                        // fewer than 64 hex digits follow the prefix
	TooLong                         // more than 64 characters follow the prefix
	UpperCase                       // the prefix or a digit is upper-case
)

// AddressError is the error of [Parse]. Its outcome is bad_address.
type AddressError struct {
	Text    string // the text, cut after 80 bytes
	Problem AddressProblem
	// Digits is the number of hex digits that follow the prefix, for TooShort. For TooLong it is the
	// number of bytes that follow it.
	Digits int
	// Char is the first character that is not a hex digit, for NotHex.
	// utf8.RuneError stands for a byte that is not UTF-8.
	Char rune
	// Position is the place of Char behind the prefix, for NotHex. The first
	// place is 1.
	Position int
}

// Error describes the problem in one sentence without a trailing period.
func (e *AddressError) Error() string {
	return fmt.Sprintf("%q is not an address: %s", e.Text, e.Reason())
}

// Reason describes the problem without the text: "it is too short (12 of 64 hex
// digits)".
func (e *AddressError) Reason() string {
	switch e.Problem {
	case NoPrefix:
		return "it does not start with " + prefix
	case NotHex:
		return fmt.Sprintf("character %d after %s is %q, not a hex digit", e.Position, prefix, e.Char)
	case TooShort:
		return fmt.Sprintf("it is too short (%d of %d hex digits)", e.Digits, 2*Size)
	case TooLong:
		return fmt.Sprintf("it is too long (%d characters after %s, want %d)", e.Digits, prefix, 2*Size)
	case UpperCase:
		return "its letters must be lower-case"
	}
	return "it is malformed"
}

// Status returns the outcome bad_address.
func (e *AddressError) Status() status.Outcome { return status.BadAddress }

// checkAddress returns what is wrong with the address s, or nil. It reads at most
// one character more than an address has.
func checkAddress(s string) *AddressError {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return addressError(s, NoPrefix)
	}
	digits := s[len(prefix):]
	upper := s[:len(prefix)] != prefix
	for i, c := range digits[:min(len(digits), 2*Size)] {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		case 'A' <= c && c <= 'F':
			upper = true
		default:
			e := addressError(s, NotHex)
			e.Char, e.Position = c, i+1
			return e
		}
	}
	switch {
	case len(digits) < 2*Size:
		e := addressError(s, TooShort)
		e.Digits = len(digits)
		return e
	case len(digits) > 2*Size:
		e := addressError(s, TooLong)
		e.Digits = len(digits)
		return e
	case upper:
		return addressError(s, UpperCase)
	}
	return nil
}

// addressError returns an error that quotes at most 80 bytes of s.
func addressError(s string, p AddressProblem) *AddressError {
	const quoted = 80
	if len(s) > quoted {
		s = s[:quoted] + "…"
	}
	return &AddressError{Text: s, Problem: p}
}
