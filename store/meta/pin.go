package meta

import (
	"strings"
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
	Target    Target // the durability that it asks for; a recursive pin asks for every object below it
	// Released says that the pin is gone and keeps nothing: its record says that its target was
	// removed. Listings of pins leave it out.
	Released bool
}

// Release returns the record that replaces a dropped pin with a target: it says that the target was removed. now is in
// Unix milliseconds.
func (p Pin) Release(now uint64) Pin {
	if !p.Target.Removed() {
		p.Target = Target{}.Next(p.Target, now)
	}
	p.Recursive, p.Released = false, true
	return p
}

// Replace returns p as it is stored in place of old: the target with the higher number stays.
func (p Pin) Replace(old Pin) Pin {
	if !p.Target.Replaces(old.Target) {
		p.Target = old.Target
	}
	return p
}

// SharedLabel is the label of pins whose objects are not announced to the network: they are for those
// who were given a ticket.
const SharedLabel = "shared"

// ClusterLabel is the label of pins of objects that the other members of the cluster store on this
// node. People neither set nor remove such pins.
const ClusterLabel = "cluster"

// OriginLabel returns the label of the pin that keeps, at another member, the target of a member of the
// cluster. People neither set nor remove such pins either.
func OriginLabel(member string) string { return ClusterLabel + "/" + member }

// Origin returns the member whose target the pin with that label keeps, "" for other labels.
func Origin(label string) string {
	member, ok := strings.CutPrefix(label, ClusterLabel+"/")
	if !ok {
		return ""
	}
	return member
}

// OfCluster reports whether the cluster set the pin with that label, not a person.
func OfCluster(label string) bool {
	return label == ClusterLabel || strings.HasPrefix(label, ClusterLabel+"/")
}

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
