package transfer

import (
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// Options say which bytes of an object to fetch and which peers may have them. The
// zero value fetches no bytes, only the size.
type Options struct {
	// Start and End are the range in bytes. End is exclusive, or ToEnd. A negative
	// Start, with ToEnd, counts from the end: -500 is the last 500 bytes. The range
	// is cut at the end of the object. It is empty when Start == End.
	Start, End int64
	// Ahead is the maximum number of bytes that are requested ahead of the reader, from 512 KiB to
	// 64 MiB. 0 means 64 MiB. With a small window a slow reader slows the fetch.
	Ahead int64
	// Absent is the error of a caller that has just looked for the object in the
	// store. When it is set the store is not asked again.
	Absent error
	// Unstored hands out an object for which the store has no space from RAM. It is for Open alone.
	Unstored bool
	providers.Sources
}

// ToEnd is the End of a range that reaches to the end of the object.
const ToEnd = -1

// Whole returns the options for a whole object.
func Whole(from providers.Sources) Options { return Options{End: ToEnd, Sources: from} }

// RangeError is a range that begins behind the end of the object (bad_range).
type RangeError struct {
	Root  b3.Root
	Start int64
	Size  int64 // proved, for Content-Range
}

// Error names the range and the size.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, so there are none from byte %d on", e.Root, e.Size, e.Start)
}

// Status returns bad_range.
func (e *RangeError) Status() status.Outcome { return status.BadRange }

// demand returns the range and the window as the schedule knows them.
func (o Options) demand() schedule.Demand {
	ahead := int64(schedule.ReadAhead)
	if o.Ahead != 0 {
		ahead = min(max(o.Ahead/b3.GroupSize, schedule.LeastAhead), schedule.ReadAhead)
	}
	return schedule.Demand{Start: o.Start, End: o.End, Ahead: ahead}
}

// Check returns bad_range when Start and End are no range.
func (o Options) Check(root b3.Root) error {
	switch {
	case o.End < ToEnd, o.End >= 0 && (o.Start < 0 || o.Start > o.End):
		return status.Errorf(status.BadRange, "%s: [%d, %d) is not a range: want 0 ≤ start ≤ end, or end -1",
			root, o.Start, o.End)
	}
	return nil
}

// Within returns the range within an object of the given size, or a [*RangeError].
func (o Options) Within(root b3.Root, size int64) (start, end int64, err error) {
	start, end, ok := o.demand().Cut(size)
	if !ok {
		return 0, 0, &RangeError{Root: root, Start: o.Start, Size: size}
	}
	return start, end, nil
}
