package meta

import (
	"time"
	"unicode/utf8"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Pin keeps an object from being removed. An object has at most one pin for each
// label.
type Pin struct {
	Root      b3.Root
	Label     string // at most MaxLabel bytes of UTF-8, without control characters; may be empty
	Recursive bool   // also keeps the objects below the directory Root
	Created   time.Time
}

// SharedLabel is the label of pins whose objects are not announced to the network: they are for those
// who were given a ticket.
const SharedLabel = "shared"

// MaxLabel is the largest length of a pin's label in bytes.
const MaxLabel = 255

// CheckLabel returns bad_request if label is not a valid label of a pin.
func CheckLabel(label string) error {
	if len(label) > MaxLabel {
		return status.Errorf(status.BadRequest, "the label has %d bytes; the limit is %d", len(label), MaxLabel)
	}
	if !utf8.ValidString(label) {
		return status.Errorf(status.BadRequest, "the label %q is not UTF-8", label)
	}
	for _, r := range label {
		if r < ' ' || r == 0x7f {
			return status.Errorf(status.BadRequest, "the label %q has a control character", label)
		}
	}
	return nil
}
