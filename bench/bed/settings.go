// Package bed starts the nodes, commands and reference servers that the measurements share.
package bed

import (
	"path/filepath"
	"slices"
	"time"
)

// Rest is the time between the removal of files and the next measurement.
const Rest = 2 * time.Second

// Settings of one run.
type Settings struct {
	Allium string // the binary under test
	Dir    string // on the disk to measure
	Size   int64
	Files  int
	Rounds int
	Hold   time.Duration // of many sessions, and of an overload
	env    []string      // of nodes that are started, beside that of this process
}

// With returns s with variables for the environment of nodes, such as "KEY=value".
func (s *Settings) With(env ...string) *Settings {
	t := *s
	t.env = append(slices.Clip(t.env), env...)
	return &t
}

// IdleFor is the time that a node is left alone before its memory is read.
const IdleFor = 5 * time.Second

// Large is the name of the large file.
func (s *Settings) Large() string { return filepath.Join(s.Dir, "large") }

// Provider is the home that holds the large file.
func (s *Settings) Provider() string { return filepath.Join(s.Dir, "provider") }

// MS returns d in milliseconds.
func MS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MB returns a number of bytes in millions.
func MB(bytes int64) float64 { return float64(bytes) / 1e6 }
