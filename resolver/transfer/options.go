package transfer

import (
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// Options say which bytes of an object are wanted and who may have them.
// The zero value asks for no bytes: the size alone.
type Options struct {
	// Start and End are the bytes wanted, End exclusive or ToEnd. A negative
	// Start, with ToEnd, counts from the end: -500 is the last 500 bytes. What
	// lies past the end of the object is cut off. Start == End reads nothing.
	Start, End int64
	// Ahead is how many bytes may be asked for ahead of the reader, from 512 KiB
	// to 64 MiB, which 0 stands for: with it a reader sets the pace of a fetch.
	Ahead int64
	// Absent is why the caller, who has just looked, did not find the object in the
	// store: it is not looked for there again. Nil: it is.
	Absent error
	providers.Sources
}

// ToEnd is the End of a range that reaches to the end of the object.
const ToEnd = -1

// Whole asks for a whole object.
func Whole(from providers.Sources) Options { return Options{End: ToEnd, Sources: from} }

// RangeError is a range that begins behind the end of the object (bad_range).
type RangeError struct {
	Root  b3.Root
	Start int64
	Size  int64 // proved, for Content-Range
}

// Error names the range and the size.
func (e *RangeError) Error() string {
	return fmt.Sprintf("resolver: %s has %d bytes, there is nothing from byte %d on", e.Root, e.Size, e.Start)
}

// Status is bad_range.
func (e *RangeError) Status() status.Outcome { return status.BadRange }

// want is what the schedule knows of it.
func (o Options) want() schedule.Want {
	ahead := int64(schedule.ReadAhead)
	if o.Ahead != 0 {
		ahead = min(max(o.Ahead/b3.GroupSize, schedule.LeastAhead), schedule.ReadAhead)
	}
	return schedule.Want{Start: o.Start, End: o.End, Ahead: ahead}
}

// Check says whether the range is one.
func (o Options) Check(root b3.Root) error {
	switch {
	case o.End < ToEnd, o.End >= 0 && (o.Start < 0 || o.Start > o.End):
		return status.Errorf(status.BadRange, "resolver: %s: [%d, %d) is not a range: want 0 ≤ start ≤ end, or end -1", root, o.Start, o.End)
	}
	return nil
}

// Within cuts the range to an object of that size.
func (o Options) Within(root b3.Root, size int64) (start, end int64, err error) {
	start, end, ok := o.want().Cut(size)
	if !ok {
		return 0, 0, &RangeError{Root: root, Start: o.Start, Size: size}
	}
	return start, end, nil
}
