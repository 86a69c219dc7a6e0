package cache

import (
	"encoding/binary"

	"allium/protocols/b3"
)

// The bounds of asked: 8 KiB for the latest 1,024 addresses, or so.
const (
	askedSets = 128
	askedWays = 8
)

// asked remembers the latest addresses of each set by a part of theirs, the latest first. 0 is a free place. An
// address that is taken for another costs no more than an object that is cached too early.
type asked [][askedWays]uint64

func newAsked() asked { return make(asked, askedSets) }

// take forgets root and returns true, or remembers it if it is not there.
func (a asked) take(root b3.Root) bool {
	set := &a[int(root[2])%askedSets]
	part := max(binary.LittleEndian.Uint64(root[8:]), 1)
	at := 0
	for at < askedWays && set[at] != part {
		at++
	}
	if at < askedWays {
		copy(set[at:], set[at+1:])
		set[askedWays-1] = 0
		return true
	}
	copy(set[1:], set[:])
	set[0] = part
	return false
}
