package addcache

import (
	"cmp"
	"fmt"
	"time"
)

// racy is the smallest age of a file's times when it is read. Some file systems
// store times in units of two seconds.
const racy = 2 * time.Second

// Stamp identifies a file and its state. The zero Stamp describes no file.
type Stamp struct {
	device, inode uint64
	size          int64
	modified      int64 // Unix time in nanoseconds
	changed       int64 // Unix time in nanoseconds
}

// Recent reports whether the file changed so recently that a later change could leave the same stamp.
func (s Stamp) Recent(now time.Time) bool {
	return now.Sub(time.Unix(0, max(s.modified, s.changed))) < racy
}

// String returns the stamp as text: two stamps have the same text if they are equal.
func (s Stamp) String() string {
	return fmt.Sprintf("%x.%x.%x.%x.%x", s.device, s.inode, s.size, s.modified, s.changed)
}

// compare orders stamps by device and inode.
func (s Stamp) compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.device, o.device), cmp.Compare(s.inode, o.inode))
}
