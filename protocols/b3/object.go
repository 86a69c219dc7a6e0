package b3

// Object is an open object of a store, whole or in part: in RAM, on a disk, or
// arriving. It stays readable until Close. Its methods are safe for concurrent use.
type Object interface {
	// Size is the size of the whole object in bytes, a proved fact.
	Size() int64
	// Reader reads the object, verified. It is not used after Close.
	Reader() *Reader
	// Failed takes the error of a read, so that the store learns of damage, and
	// returns the one to show.
	Failed(err error) error
	Close() error
}

// Presence says how much of an object a store holds. Its values go over the wire
// (OAP1.md §9).
type Presence uint8

// How much of an object is here.
const (
	Absent Presence = iota
	Complete
	Partial
)

// String is the lower-case name.
func (p Presence) String() string {
	switch p {
	case Absent:
		return "absent"
	case Complete:
		return "complete"
	case Partial:
		return "partial"
	}
	return "unknown"
}
